#include "core/config/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxModelFileBytes = std::size_t{1} << 20;
constexpr double kMaxParameters = 1e15;

/// Models whose layers no switch describes, by the keys that only they have.
void refuse_other_layers(const JsonKeys& keys) {
  for (const char* key : {"kv_lora_rank", "q_lora_rank"}) {
    if (keys.find(key) == nullptr) continue;
    keys.fail(key,
              "found, which is multi-head latent attention; supported is attention with keys and values of "
              "their own");
  }
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size"}) {
    if (keys.find(key) == nullptr) continue;
    keys.fail(key, "found, which is a mixture of experts; supported are dense models");
  }
}

/// By model_type, or the first entry of architectures ("Qwen2ForCausalLM").
const Family& family_of(const JsonKeys& keys) {
  const std::string type = keys.string_or("model_type", "");
  if (!type.empty()) {
    if (const Family* known = find_family(type)) return *known;
    refuse_other_layers(keys);
    keys.fail("model_type", fmt::format("found \"{}\", supported: {}", printable(type), family_names()));
  }
  const Json* classes = keys.find("architectures");
  if (classes == nullptr) keys.fail("model_type", fmt::format("missing; supported: {}", family_names()));
  std::vector<std::string_view> names;
  names.reserve(families().size());
  for (const Family& family : families()) {
    if (classes->is_array() && classes->size() == 1 && classes->front().is_string() &&
        classes->front().get<std::string>() == family.class_name) {
      return family;
    }
    names.push_back(family.class_name);
  }
  keys.fail("architectures",
            fmt::format("found {}, supported: {}", JsonKeys::shown(*classes), fmt::join(names, ", ")));
}

/// Parameters without the danger of overflow; exact only below 2^53.
template <class Number>
Number count_parameters(const ModelConfig& config) {
  const Number h(config.hidden);
  const Number q = Number(config.heads) * Number(config.head_dim);
  const Number kv = Number(config.kv_heads) * Number(config.head_dim);
  const Number fc1 = Number(config.ffn) * Number(is_gated(config.activation) ? 2 : 1);
  const Number norm = h * Number(config.norm == Norm::layer ? 2 : 1);
  Number layer =
      norm * Number(config.layer_norms()) + h * (q + kv * 2) + q * h + fc1 * h + Number(config.ffn) * h;
  if (config.qkv_bias) layer += q + kv * 2;
  if (config.linear_bias) layer += h + fc1 + h;
  if (config.qk_norm) layer += Number(config.head_dim) * 2;
  Number total = layer * Number(config.layers) + norm + Number(config.vocab) * h;
  total += Number(config.position_rows()) * h;
  if (config.embedding_norm) total += norm;
  if (!config.tied_embeddings) total += Number(config.vocab) * h;
  return total;
}

}  // namespace

std::int64_t ModelConfig::parameters() const {
  return count_parameters<std::int64_t>(*this);
}

std::int64_t ModelConfig::window_of(std::int64_t layer) const {
  const auto index = static_cast<std::size_t>(layer);
  return index < full_attention.size() && full_attention[index] ? 0 : sliding_window;
}

double ModelConfig::mean_keys(std::int64_t seq_length) const {
  const double full = keys_per_query(seq_length, 0);
  if (sliding_window == 0 || sliding_window >= seq_length) return full;
  const auto without = static_cast<double>(std::count(full_attention.begin(), full_attention.end(), true));
  const double share = without / static_cast<double>(layers);
  return share * full + (1 - share) * keys_per_query(seq_length, sliding_window);
}

double keys_per_query(std::int64_t seq_length, std::int64_t window) {
  const auto s = static_cast<double>(seq_length);
  if (window == 0 || window >= seq_length) return s / 2;
  const auto w = static_cast<double>(window);
  return w - w * w / (2 * s);
}

ModelConfig parse_model_config(std::string_view json, const std::string& origin) {
  const Json object = parse_json_object(json, origin);
  const JsonKeys keys(object, origin);
  ModelConfig config;
  const Family& family = family_of(keys);
  config.architecture = family.architecture;
  config.name = keys.string_or("_name_or_path", origin);
  config.init_std = keys.number_or("initializer_range", 0, 10, 0.02);
  read_family(family, keys, JsonKeys(object, origin, JsonNull::refused), config);
  const double count = count_parameters<double>(config);
  if (count > kMaxParameters) {
    throw InputError(fmt::format("{}: the sizes make {:.3g} parameters; supported are at most {:.0e}", origin,
                                 count, kMaxParameters));
  }
  return config;
}

ModelConfig load_model_config(const std::string& path) {
  ModelConfig config = parse_model_config(read_text_file(path, kMaxModelFileBytes), path);
  config.name = path;  // a file's own idea of its name is often another machine's path
  return config;
}

std::string to_config_json(const ModelConfig& config) {
  Json out = {{"_name_or_path", config.name},
              {"model_type", config.architecture},
              {"initializer_range", config.init_std},
              {"tie_word_embeddings", config.tied_embeddings}};
  const Family* family = find_family(config.architecture);
  write_family(family == nullptr ? families().front() : *family, config, out);
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

ModelConfig resolve_model(const std::string& preset_or_path) {
  if (const ModelConfig* preset = find_preset(preset_or_path)) return *preset;
  std::error_code error;
  if (std::filesystem::is_directory(preset_or_path, error)) {
    return load_model_config((std::filesystem::path(preset_or_path) / "config.json").string());
  }
  if (std::filesystem::exists(preset_or_path, error)) return load_model_config(preset_or_path);
  const std::vector<std::string> names = preset_names();
  const std::string_view nearest = nearest_name(preset_or_path, {names.begin(), names.end()});
  throw InputError(fmt::format(
      "model: \"{}\" is neither a preset nor a file (did you mean {}?); expected one of {}, or the path of a "
      "Hugging Face config.json",
      printable(preset_or_path, 200), nearest, fmt::join(names, ", ")));
}

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

}  // namespace plumbline
