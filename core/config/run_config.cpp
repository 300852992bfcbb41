#include "core/config/run_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_keys.hpp"
#include "core/config/distillation_config.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

std::int64_t model_ranks(const RunConfig& config) {
  return std::int64_t{config.tensor_model_parallel_size} * config.pipeline_model_parallel_size *
         config.context_parallel_size;
}

/// The model's part of why_invalid.
std::optional<std::string> why_model_does_not_split(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t t = config.tensor_model_parallel_size;
  if (auto reason = why_tensor_split_invalid(model, t)) return reason;
  const std::int64_t stages =
      std::int64_t{config.pipeline_model_parallel_size} * config.virtual_pipeline_chunks;
  if (model.layers < stages) {
    return fmt::format(
        "pipeline_model_parallel_size: {} stages, expected at most the {} layers of {}: every stage holds "
        "one",
        stages, model.layers, model.name);
  }
  if (config.effective_sequence_parallel() && config.seq_length % t != 0) {
    return fmt::format(
        "sequence_parallel: found true with seq_length {}, expected one that {} tensor ranks divide",
        config.seq_length, t);
  }
  if (model.positions == Positions::learned && config.seq_length > model.max_positions) {
    return fmt::format("seq_length: found {}, expected at most the {} learned positions of {}",
                       config.seq_length, model.max_positions, model.name);
  }
  return std::nullopt;
}

/// What linear layers in eight bits ask of the sizes on a rank.
std::optional<std::string> why_not_in_eight_bits(const RunConfig& config) {
  constexpr std::int64_t kMultiple = 16;  // of both extents of every product: the matrix units' condition
  if (!config.fp8()) return std::nullopt;
  const ModelConfig& model = config.model;
  const std::int64_t t = config.tensor_model_parallel_size;
  const std::int64_t query = model.heads / t * model.head_dim;
  const std::int64_t key = std::max<std::int64_t>(1, model.kv_heads / t) * model.head_dim;
  const std::int64_t ffn = model.ffn / t;
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"micro_batch_size x seq_length", config.micro_batch_size * config.seq_length},
      {"hidden columns", model.hidden},
      {"query, key and value columns per tensor rank", query + 2 * key},
      {"query columns per tensor rank", query},
      {"feed-forward columns per tensor rank", ffn},
  };
  for (const auto& [what, size] : sizes) {
    if (size % kMultiple == 0) continue;
    return fmt::format("fp8_format: found {} with {} = {}, expected a multiple of {}",
                       config.fp8_format == Fp8Format::e4m3 ? "e4m3" : "hybrid", what, size, kMultiple);
  }
  return std::nullopt;
}

/// Vocabulary parallelism's part of why_invalid.
std::optional<std::string> why_vocabulary_does_not_split(const RunConfig& config) {
  const std::string& schedule = config.pipeline_schedule;
  if (const ScheduleTraits traits = schedule_traits(schedule); !traits.base.empty()) {
    return fmt::format("pipeline_schedule: found {}, expected {} with vocab_parallel: {}", schedule,
                       traits.base, vocab_parallel_name(traits.vocab));
  }
  if (!config.splits_vocabulary()) return std::nullopt;
  const std::string found =
      fmt::format("vocab_parallel: found {} with", vocab_parallel_name(config.vocab_parallel));
  if (find_with_passes(schedule, config.vocab_parallel) == nullptr) {
    std::vector<std::string_view> bases;
    for (const ScheduleTraits& traits : kScheduleTraits) {
      if (traits.vocab == config.vocab_parallel) bases.push_back(traits.base);
    }
    return fmt::format("{} pipeline_schedule {}, expected {}", found, schedule, fmt::join(bases, " or "));
  }
  if (config.effective_sequence_parallel()) return found + " sequence_parallel, expected it off";
  if (config.model.vocab < config.vocab_shards()) {
    return fmt::format(
        "{} a vocabulary of {}, expected at least one token id for each of the {} ranks it is "
        "cut over (pipeline x tensor)",
        found, config.model.vocab, config.vocab_shards());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_tensor_split_invalid(const ModelConfig& model, std::int64_t t) {
  const auto tensor = [&](const char* what, std::int64_t count) {
    return fmt::format("tensor_model_parallel_size: found {}, expected a divisor of the {} {} of {}", t,
                       count, what, model.name);
  };
  if (model.heads % t != 0) return tensor("attention heads", model.heads);
  if (model.kv_heads % t != 0 && t % model.kv_heads != 0) {
    return fmt::format(
        "tensor_model_parallel_size: found {}, expected a divisor or a multiple of the {} key/value heads of "
        "{}",
        t, model.kv_heads, model.name);
  }
  if (model.ffn % t != 0) return tensor("feed-forward columns", model.ffn);
  return std::nullopt;
}

int RunConfig::data_parallel_size() const {
  return static_cast<int>(world_size / model_ranks(*this));
}

Layout RunConfig::layout() const {
  Layout layout;
  layout.tensor = tensor_model_parallel_size;
  layout.pipeline = pipeline_model_parallel_size;
  layout.data = data_parallel_size();
  layout.vocab_parallel = splits_vocabulary();
  if (model.kv_heads > 0 && model.kv_heads < layout.tensor) {
    layout.kv_sharing = layout.tensor / static_cast<int>(model.kv_heads);
  }
  return layout;
}

int RunConfig::microbatches() const {
  return static_cast<int>(global_batch_size / (micro_batch_size * data_parallel_size()));
}

std::int64_t RunConfig::padded_vocab() const {
  const std::int64_t multiple = make_vocab_size_divisible_by * vocab_shards();
  return (model.vocab + multiple - 1) / multiple * multiple;
}

std::optional<std::string> why_invalid(const RunConfig& config) {
  constexpr std::int64_t kMaxMicrobatches = 1'000'000;  // a schedule lists every one
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
  if (config.world_size % model_ranks(config) != 0) {
    return fmt::format(
        "world_size: found {}, expected a multiple of tensor x pipeline x context parallel size = {} x {} x "
        "{}",
        config.world_size, config.tensor_model_parallel_size, config.pipeline_model_parallel_size,
        config.context_parallel_size);
  }
  if (auto reason = why_model_does_not_split(config)) return reason;
  const std::int64_t replicas = config.data_parallel_size();
  const std::int64_t samples = config.micro_batch_size * replicas;
  if (config.global_batch_size % samples != 0) {
    return fmt::format(
        "global_batch_size: found {}, expected a multiple of micro_batch_size x data parallel size = {} x {}",
        config.global_batch_size, config.micro_batch_size, replicas);
  }
  if (config.global_batch_size / samples > kMaxMicrobatches) {
    return fmt::format("global_batch_size: found {}, which makes {} micro-batches; expected at most {}",
                       config.global_batch_size, config.global_batch_size / samples, kMaxMicrobatches);
  }
  if (config.micro_batch_size > kMaxTokens / config.seq_length) {
    return fmt::format("micro_batch_size: found {} with seq_length {}, expected at most {} tokens together",
                       config.micro_batch_size, config.seq_length, kMaxTokens);
  }
  if (auto reason = why_not_in_eight_bits(config)) return reason;
  if (auto reason = why_layer_distribution_invalid(config)) return reason;
  if (auto reason = why_vocabulary_does_not_split(config)) return reason;
  if (!config.loss_mask.empty() && config.data.empty()) {
    return "loss_mask: found without data, expected the token ids that it belongs to";
  }
  return why_distillation_invalid(config);
}

std::optional<std::string> why_unsupported(const RunConfig& config) {
  const auto only = [](const char* key, const auto& found, const char* supported) {
    return fmt::format("{}: found {}, this build executes {}", key, found, supported);
  };
  if (config.backend == Backend::emulated && config.hardware.empty()) {
    return "hardware: missing, the emulated backend needs a preset such as h100-sxm-80gb or a profile file";
  }
  if (config.context_parallel_size != 1) {
    return only("context_parallel_size", config.context_parallel_size, "1 only");
  }
  if (config.expert_model_parallel_size != 1) {
    return only("expert_model_parallel_size", config.expert_model_parallel_size, "1 only");
  }
  if (config.attention_backend == AttentionBackend::unfused && config.backend != Backend::emulated) {
    return only("attention_backend", "unfused", "fused on cpu and cuda, unfused on emulated");
  }
  if (config.precision == DType::fp16 && config.backend != Backend::emulated) {
    return only("precision", "fp16", "fp32 and bf16 on cpu and cuda, fp16 on emulated");
  }
  return std::nullopt;
}

std::optional<std::string> why_unpredictable(const RunConfig& config) {
  RunConfig anywhere = config;
  if (!config.hardware.empty()) anywhere.backend = Backend::emulated;
  return why_unsupported(anywhere);
}

std::vector<std::pair<std::string, std::string>> describe(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const ConfigKey& key : config_keys()) lines.emplace_back(key.name, key.print(config));
  return lines;
}

std::string to_yaml(const RunConfig& config) {
  // JSON is YAML: a JSON string is a double-quoted scalar, a JSON object a flow mapping.
  std::string text;
  for (const auto& [key, value] : describe(config)) {
    if (key == "model") {
      text += fmt::format("{}: {}\n", key, to_config_json(config.model));
    } else if (key == "teacher" && config.teacher) {
      text += fmt::format("{}: {}\n", key, to_config_json(*config.teacher));
    } else {
      const nlohmann::json quoted = value;
      text +=
          fmt::format("{}: {}\n", key, quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
  }
  return text;
}

Bytes parse_bytes(const std::string& text, const std::string& key) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
  };
  double number = NAN;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && std::isfinite(number) && number >= 0) {
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    for (const auto& [name, factor] : kUnits) {
      if (unit == name && number * factor < 0x1p60) return {std::llround(number * factor)};
    }
  }
  throw InputError(fmt::format("{}: found \"{}\", expected bytes such as 512MiB, 2GiB, 80GB or 1e9", key,
                               printable(text)));
}

}  // namespace plumbline
