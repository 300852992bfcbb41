#include "core/config_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>

#include "core/error.hpp"
#include "core/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;  // of a parallel dimension
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

template <std::size_t N>
using Names = std::array<std::string_view, N>;
constexpr Names<3> kRecompute = {"none", "selective", "full"};
constexpr Names<3> kBackends = {"cpu", "cuda", "emulated"};
constexpr Names<2> kOptimizers = {"adam", "sgd"};
constexpr Names<2> kGradDTypes = {"fp32", "same"};
constexpr Names<3> kPrecisions = {"fp32", "bf16", "fp16"};
constexpr Names<3> kVocabParallel = {"none", "vocab-1", "vocab-2"};

[[noreturn]] void fail(const ConfigText& value, const std::string& key, const std::string& expected) {
  throw InputError(
      fmt::format("{}: {}: found \"{}\", expected {}", value.origin, key, printable(value.text), expected));
}

/// The whole text as a number of type T; empty when it is not one or has trailing characters.
template <class T>
std::optional<T> whole_number(const std::string& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A key whose value is stored by `set(draft, number)`.
ConfigKey integer_key(const std::string& name, std::string alias, std::int64_t min, std::int64_t max,
                      const std::function<void(ConfigDraft&, std::int64_t)>& set,
                      const std::function<std::int64_t(const RunConfig&)>& get) {
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  return {name, std::move(alias), expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = whole_number<std::int64_t>(value.text);
            if (!number || *number < min || *number > max) fail(value, name, expected);
            set(draft, *number);
          },
          [=](const RunConfig& config) { return fmt::format("{}", get(config)); }};
}

template <class T>
ConfigKey integer_key(const std::string& name, const std::string& alias, T RunConfig::*member,
                      std::int64_t min, std::int64_t max) {
  return integer_key(
      name, alias, min, max,
      [=](ConfigDraft& draft, std::int64_t number) { draft.config.*member = static_cast<T>(number); },
      [=](const RunConfig& config) { return static_cast<std::int64_t>(config.*member); });
}

ConfigKey number_key(const std::string& name, double RunConfig::*member, double min, double max) {
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = whole_number<double>(value.text);
            if (!number || !(*number >= min && *number <= max)) fail(value, name, expected);
            draft.config.*member = *number;
          },
          [=](const RunConfig& config) { return fmt::format("{}", config.*member); }};
}

ConfigKey boolean_key(const std::string& name, bool RunConfig::*member) {
  return {name, "", "true or false",
          [=](ConfigDraft& draft, const ConfigText& value) {
            if (value.text != "true" && value.text != "false") fail(value, name, "true or false");
            draft.config.*member = value.text == "true";
          },
          [=](const RunConfig& config) { return config.*member ? "true" : "false"; }};
}

/// One of `names`, stored as the enumerator (or text) of the same place.
template <class T, std::size_t N>
ConfigKey choice_key(const std::string& name, T RunConfig::*member, const Names<N>& names) {
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto found = std::find(names.begin(), names.end(), value.text);
            if (found == names.end()) fail(value, name, expected);
            if constexpr (std::is_same_v<T, std::string>) {
              draft.config.*member = value.text;
            } else {
              draft.config.*member = static_cast<T>(found - names.begin());
            }
          },
          [=](const RunConfig& config) {
            if constexpr (std::is_same_v<T, std::string>) {
              return config.*member;
            } else {
              return std::string(names[static_cast<std::size_t>(config.*member)]);
            }
          }};
}

std::string absolute_path(const ConfigText& value) {
  return std::filesystem::absolute(std::filesystem::path(value.folder) / value.text)
      .lexically_normal()
      .string();
}

enum class PathOr { path, name };  // always a path, or a name unless it looks like a path

ConfigKey text_key(const std::string& name, std::string RunConfig::*member, PathOr kind,
                   const std::string& expected) {
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const bool plain = std::none_of(value.text.begin(), value.text.end(),
                                            [](unsigned char c) { return c < 0x20 || c == 0x7f; });
            if (!plain) fail(value, name, expected + " without control characters");
            const bool is_path = kind == PathOr::path || value.text.find('/') != std::string::npos ||
                                 value.text.ends_with(".json") || value.text.ends_with(".csv");
            draft.config.*member = is_path && !value.text.empty() ? absolute_path(value) : value.text;
          },
          [=](const RunConfig& config) { return config.*member; }};
}

ModelConfig read_model(const ConfigText& value, const std::string& key) {
  if (value.text.starts_with('{')) {
    const std::string origin = fmt::format("{}: {}", value.origin, key);
    ModelConfig model = parse_model_config(value.text, origin);
    if (model.name == origin) model.name = "inline";
    return model;
  }
  if (const ModelConfig* preset = find_preset(value.text)) return *preset;
  ConfigText path = value;
  std::error_code error;
  if (!value.text.empty() && std::filesystem::exists(absolute_path(value), error)) {
    path.text = absolute_path(value);
  }
  try {
    ModelConfig model = resolve_model(path.text);
    model.name = value.text;
    return model;
  } catch (const InputError& complaint) {
    throw InputError(fmt::format("{}: {}", value.origin, complaint.what()));
  }
}

ConfigKey memory_budget_key() {
  return {"memory_budget", "", "bytes such as 2GiB, or 0 for no bound",
          [](ConfigDraft& draft, const ConfigText& value) {
            try {
              draft.config.memory_budget = parse_bytes(value.text, "memory_budget");
            } catch (const InputError& complaint) {
              throw InputError(fmt::format("{}: {}", value.origin, complaint.what()));
            }
          },
          [](const RunConfig& config) { return fmt::format("{}", config.memory_budget.value); }};
}

ConfigKey seed_key() {
  const char* const expected = "a whole number from 0 to 18446744073709551615";
  return {"seed", "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = whole_number<std::uint64_t>(value.text);
            if (!number) fail(value, "seed", expected);
            draft.config.seed = *number;
          },
          [](const RunConfig& config) { return fmt::format("{}", config.seed); }};
}

std::vector<ConfigKey> make_keys() {
  using C = RunConfig;
  const std::string model = "a preset, the path of a Hugging Face config.json, or an inline mapping";
  return {
      {"model", "", model,
       [](ConfigDraft& draft, const ConfigText& value) { draft.config.model = read_model(value, "model"); },
       // A record stands alone: a model that has no name elsewhere is written out.
       [](const RunConfig& config) {
         return config.model.name == "inline" ? to_config_json(config.model) : config.model.name;
       }},
      text_key("hardware", &C::hardware, PathOr::name, "a hardware preset or the path of a profile"),
      choice_key("backend", &C::backend, kBackends),
      integer_key(
          "world_size", "", 1, kMaxSize, [](ConfigDraft& draft, std::int64_t n) { draft.world_size = n; },
          [](const RunConfig& config) { return config.world_size; }),
      integer_key("tensor_model_parallel_size", "tp", &C::tensor_model_parallel_size, 1, kMaxSize),
      integer_key("pipeline_model_parallel_size", "pp", &C::pipeline_model_parallel_size, 1, kMaxSize),
      integer_key(
          "data_parallel_size", "dp", 1, kMaxSize,
          [](ConfigDraft& draft, std::int64_t n) { draft.data_parallel_size = n; },
          [](const RunConfig& config) { return config.data_parallel_size(); }),
      integer_key("virtual_pipeline_chunks", "", &C::virtual_pipeline_chunks, 1, kMaxSize),
      integer_key("context_parallel_size", "cp", &C::context_parallel_size, 1, kMaxSize),
      integer_key("expert_model_parallel_size", "ep", &C::expert_model_parallel_size, 1, kMaxSize),
      boolean_key("sequence_parallel", &C::sequence_parallel),
      choice_key("vocab_parallel", &C::vocab_parallel, kVocabParallel),
      text_key("pipeline_schedule", &C::pipeline_schedule, PathOr::name,
               "the name of a schedule or the path of a .csv"),
      integer_key("zero_stage", "", &C::zero_stage, 0, 3),
      choice_key("recompute_granularity", &C::recompute_granularity, kRecompute),
      integer_key("recompute_num_layers", "", &C::recompute_num_layers, 1, kMaxSize),
      integer_key("seq_length", "", &C::seq_length, 1, kMaxInt),
      integer_key("micro_batch_size", "mbs", &C::micro_batch_size, 1, kMaxInt),
      integer_key("global_batch_size", "gbs", &C::global_batch_size, 1, kMaxInt),
      choice_key("precision", &C::precision, kPrecisions),
      choice_key("grad_dtype", &C::grad_dtype, kGradDTypes),
      choice_key("optimizer", &C::optimizer, kOptimizers),
      number_key("learning_rate", &C::learning_rate, 0, 1e6),
      number_key("weight_decay", &C::weight_decay, 0, 1e6),
      number_key("clip_grad", &C::clip_grad, 0, 1e30),
      integer_key("make_vocab_size_divisible_by", "", &C::make_vocab_size_divisible_by, 1, kMaxSize),
      integer_key("ddp_bucket_size", "", &C::ddp_bucket_size, 1, std::int64_t{1} << 40),
      memory_budget_key(),
      integer_key("steps", "", &C::steps, 1, kMaxSize),
      integer_key("warmup_steps", "", &C::warmup_steps, 0, kMaxSize),
      number_key("timeout_s", &C::timeout_s, 0.001, 1e9),
      number_key("emulated_time_factor", &C::emulated_time_factor, 0, 1e6),
      seed_key(),
      text_key("weights", &C::weights, PathOr::path, "the folder of a Hugging Face checkpoint"),
      text_key("data", &C::data, PathOr::path, "a file of token ids, .npy or raw int32"),
      text_key("save_gradients", &C::save_gradients, PathOr::path, "the path of a file to write"),
      text_key("save_weights", &C::save_weights, PathOr::path, "the path of a folder to write"),
      {"teacher", "", model + ", or none",
       [](ConfigDraft& draft, const ConfigText& value) {
         draft.config.teacher.reset();
         if (value.text != "none") draft.config.teacher = read_model(value, "teacher");
       },
       [](const RunConfig& config) { return config.teacher ? config.teacher->name : "none"; }},
      choice_key("distillation_schedule", &C::distillation_schedule,
                 Names<3>{"nemo-2504", "abeja", "nemo-13065"}),
  };
}

}  // namespace

std::string ConfigKey::flag() const {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = make_keys();
  return kKeys;
}

const ConfigKey* find_config_key(std::string_view name) {
  for (const ConfigKey& key : config_keys()) {
    if (name == key.name || (!key.alias.empty() && name == key.alias) || name == key.flag()) return &key;
  }
  return nullptr;
}

const ConfigKey& get_config_key(std::string_view name, const std::string& origin) {
  if (const ConfigKey* key = find_config_key(name)) return *key;
  std::vector<std::string_view> known;
  for (const ConfigKey& key : config_keys()) {
    known.push_back(key.name);
    if (!key.alias.empty()) known.push_back(key.alias);
  }
  throw InputError(fmt::format("{}: unknown key \"{}\"; the nearest known key is {}", origin, printable(name),
                               nearest_name(name, known)));
}

std::optional<std::string> settle_sizes(ConfigDraft& draft) {
  RunConfig& config = draft.config;
  const std::int64_t model_ranks = std::int64_t{config.tensor_model_parallel_size} *
                                   config.pipeline_model_parallel_size * config.context_parallel_size;
  if (draft.world_size && draft.data_parallel_size &&
      (model_ranks > *draft.world_size || *draft.world_size != model_ranks * *draft.data_parallel_size)) {
    return fmt::format(
        "world_size: found {}, expected tensor x pipeline x context x data parallel size = {} x {} x {} x {}",
        *draft.world_size, config.tensor_model_parallel_size, config.pipeline_model_parallel_size,
        config.context_parallel_size, *draft.data_parallel_size);
  }
  const std::int64_t replicas = draft.data_parallel_size.value_or(1);
  if (!draft.world_size && (model_ranks > kMaxSize || model_ranks * replicas > kMaxSize)) {
    return fmt::format("world_size: the parallel sizes multiply to more than the {} ranks that are supported",
                       kMaxSize);
  }
  config.world_size = static_cast<int>(draft.world_size.value_or(model_ranks * replicas));
  return std::nullopt;
}

}  // namespace plumbline
