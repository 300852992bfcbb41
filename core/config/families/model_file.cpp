// A model from its config.json, and back; how many parameters it has.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"
#include "core/config/families/family_defaults.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxModelFileBytes = std::size_t{1} << 20;
constexpr double kMaxParameters = 1e15;

/// A model_type whose files follow their architectures.
constexpr std::string_view kByArchitecture = "kimi_k2";

bool is_type_of(const Family& family, const std::string& type, const JsonKeys& keys) {
  return family.type() == type && (*family.only_with == '\0' || keys.find(family.only_with) != nullptr);
}

/// By model_type, or the first entry of architectures ("Qwen2ForCausalLM").
const Family& family_of(const JsonKeys& keys) {
  const std::string type = keys.string_or("model_type", "");
  refuse_other_layers(keys);
  if (!type.empty() && type != kByArchitecture) {
    if (const std::string_view name = family_of_alias(type); !name.empty()) return *find_family(name);
    for (const std::span<const Family> table : family_tables()) {
      for (const Family& family : table) {
        if (is_type_of(family, type, keys)) return family;
      }
    }
    return family_by_keys(keys);
  }
  const Json* classes = keys.find("architectures");
  if (classes == nullptr) {
    keys.fail(type.empty() ? "model_type" : "architectures",
              fmt::format("missing; supported: {}", family_names()));
  }
  std::vector<std::string_view> names;
  for (const std::span<const Family> table : family_tables()) {
    for (const Family& family : table) {
      if (classes->is_array() && classes->size() == 1 && classes->front().is_string() &&
          classes->front().get<std::string>() == family.class_name) {
        return family;
      }
      names.push_back(family.class_name);
    }
  }
  keys.fail("architectures",
            fmt::format("found {}, supported: {}", JsonKeys::shown(*classes), fmt::join(names, ", ")));
}

/// The family was found by other keys than model_type and architectures.
bool is_unknown(const Family& family, const JsonKeys& keys) {
  const std::string type = keys.string_or("model_type", "");
  return !type.empty() && type != kByArchitecture && family.type() != type && family_of_alias(type).empty();
}

const Family* find_family_of_type(const std::string& type) {
  for (const std::span<const Family> table : family_tables()) {
    for (const Family& family : table) {
      if (family.type() == type) return &family;
    }
  }
  return nullptr;
}

/// Path of a nested model, for messages.
std::string path_of(const Json& file, const Json& object) {
  for (const auto& [key, value] : file.items()) {
    if (&value == &object) return key;
    if (!value.is_object()) continue;
    for (const auto& [inner, text] : value.items()) {
      if (&text == &object) return fmt::format("{}.{}", key, inner);
    }
  }
  return "";
}

/// The number of layers of a file that lists their kinds alone, as transformers 5 writes nemotron_h's.
void count_listed_layers(const Family& family, Json& object) {
  if (object.contains(family.keys.layers)) return;
  for (const char* key : {"layers_block_type", "layer_types"}) {
    const auto list = object.find(key);
    if (list == object.end() || !list->is_array() || list->empty()) continue;
    object[family.keys.layers] = list->size();
    return;
  }
}

bool keeps_keys(const Family& family) {
  const std::span<const Family> table = recent_families();
  return std::any_of(table.begin(), table.end(), [&](const Family& row) { return &row == &family; });
}

/// Keys of `object` that were read, but for sizes, which ModelConfig has: as JSON.
std::string kept_keys(const Family& family, const Json& object, const JsonKeys& keys,
                      const JsonKeys& with_nulls, bool unknown) {
  const FamilyKeys& names = family.keys;
  Json kept = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (keys.asked_for(key) || with_nulls.asked_for(key)) kept[key] = value;
  }
  for (const char* sizes : {names.layers, names.hidden, names.heads, names.kv_heads, names.head_dim,
                            names.ffn, names.vocab, names.positions, names.epsilon, names.init_std,
                            "model_type", "architectures", "_name_or_path", "tie_word_embeddings"}) {
    const std::string both = sizes;
    const std::size_t bar = both.find('|');
    kept.erase(both.substr(0, bar));
    if (bar != std::string::npos) kept.erase(both.substr(bar + 1));
  }
  if (unknown) kept["model_type"] = object["model_type"];
  return kept.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Parameters are counted as integers, and also as floating point numbers, which cannot overflow but are exact
// only below 2^53.

/// Projections of a layer's attention with the norms inside it.
template <class Number>
Number count_attention(const ModelConfig& config) {
  const Number h(config.hidden);
  const Number q = Number(config.heads) * Number(config.head_dim);
  const Number kv = Number(config.kv_heads) * Number(config.head_dim);
  if (const LatentAttention& latent = config.latent) {
    const Number rank(latent.query_rank);
    const Number compressed(latent.kv_rank);
    const Number values = Number(config.heads) * Number(latent.value_dim);
    const Number queries = latent.query_rank == 0 ? h * q : h * rank + rank + rank * q;
    return queries + h * (compressed + Number(latent.rope_dim)) + compressed +
           compressed * (Number(config.heads) * Number(latent.nope_dim) + values) + values * h;
  }
  Number count = h * (q + kv * 2) + q * h;
  if (config.biases.qkv) count += q + kv * 2;
  if (config.has_projection_bias()) count += h;
  if (config.predicted.sinks) count += Number(config.heads);
  return count + Number(config.query_norm_weights());
}

/// A Mamba mixer.
template <class Number>
Number count_mamba(const ModelConfig& config) {
  const Mamba& mamba = config.hybrid.mamba;
  return Number(config.hidden) * (Number(mamba.projected()) + Number(mamba.inner())) +
         Number(mamba.vectors());
}

/// The MoE layers of a model, counting `experts` experts.
template <class Number>
Number count_mixture(const ModelConfig& config, std::int64_t experts) {
  const Mixture& mixture = config.mixture;
  const Number h(config.hidden);
  const Number matrices(is_gated(config.activation) ? 3 : 2);
  const Number of_expert = matrices * Number(config.expert_width()) * Number(config.ffn);
  Number layer =
      of_expert * Number(experts) + h * Number(mixture.experts) + matrices * h * Number(mixture.shared);
  if (config.has_feed_forward_bias())
    layer += ((matrices - Number(1)) * Number(config.ffn) + h) * Number(experts);
  if (config.predicted.router_bias) layer += Number(mixture.experts);
  layer += Number(2) * h * Number(mixture.latent);
  if (mixture.shared > 0 && mixture.shared_gated) layer += h;
  if (mixture.expert_bias) layer += Number(mixture.experts);
  return layer;
}

template <class Number>
Number count_parameters(const ModelConfig& config, std::int64_t experts) {
  const Number h(config.hidden);
  const Number ffn(config.dense_ffn());
  const Number fc1 = ffn * Number(is_gated(config.activation) ? 2 : 1);
  const Number norm = h * Number(config.norm_vectors());
  Number dense = fc1 * h + ffn * h + Number(config.predicted.scalars);
  if (config.has_feed_forward_bias()) dense += fc1 + h;
  Number total = norm * Number(config.norm_count()) +
                 count_attention<Number>(config) * Number(config.attention_layers());
  if (config.hybrid.mamba) total += count_mamba<Number>(config) * Number(config.mamba_layers());
  total += dense * Number(config.feed_forward_layers() - config.mixture_layers());
  total += count_mixture<Number>(config, experts) * Number(config.mixture_layers());
  total += norm + Number(config.vocab) * h;
  total += Number(config.position_rows()) * h;
  if (config.embedding.norm) total += norm;
  if (config.biases.output) total += Number(config.vocab);
  if (!config.embedding.tied) total += Number(config.vocab) * h;
  return total;
}

}  // namespace

std::int64_t ModelConfig::parameters() const {
  return count_parameters<std::int64_t>(*this, mixture.experts);
}

std::int64_t ModelConfig::module_parameters() const {
  if (prediction_modules == 0) return 0;
  ModelConfig more = *this;
  ++more.layers;
  const std::int64_t layer = more.parameters() - parameters();
  return prediction_modules * (layer + 3 * hidden + 2 * hidden * hidden);
}

std::int64_t ModelConfig::active_parameters() const {
  return count_parameters<std::int64_t>(*this, mixture.top_k);
}

template <class Value>
Value* nested_model(Value& file) {
  const auto type = file.find("model_type");
  if (type != file.end() && type->is_string()) {
    const auto name = type->template get<std::string>();
    if (name == kByArchitecture || find_family_of_type(name) != nullptr) return nullptr;
  }
  Value* around = &file;
  if (const auto thinker = file.find("thinker_config"); thinker != file.end() && thinker->is_object())
    around = &*thinker;
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto text = around->find(key);
    if (text != around->end() && text->is_object()) return &*text;
  }
  return nullptr;
}
template Json* nested_model(Json& file);
template OrderedJson* nested_model(OrderedJson& file);

ModelConfig parse_model_config(std::string_view json, const std::string& origin) {
  Json file = parse_json_object(without_python_numbers(json), origin);
  Json* const text = nested_model(file);
  const bool nested = text != nullptr;
  Json& object = nested ? *text : file;
  // tie_word_embeddings stands outside text_config.
  if (nested && file.contains("tie_word_embeddings"))
    object["tie_word_embeddings"] = file["tie_word_embeddings"];
  const std::string path = nested ? path_of(file, object) : "";
  const JsonKeys keys(object, origin, JsonNull::missing, path);
  ModelConfig config;
  for (const auto& [key, value] : file.items()) {
    if (path.starts_with(key) || !key.ends_with("_config") || !value.is_object()) continue;
    if (!nested && key != "vision_config" && key != "audio_config") continue;
    if (key != "quantization_config")
      config.source.left_out += (config.source.left_out.empty() ? "" : ", ") + key;
  }
  const Family& family = family_of(keys);
  const bool unknown = is_unknown(family, keys);
  if (unknown) add_unknown_defaults(object);
  add_family_defaults(family, keys, object);
  count_listed_layers(family, object);
  config.architecture = family.architecture;
  config.name = keys.string_or("_name_or_path", origin);
  const JsonKeys with_nulls(object, origin, JsonNull::refused, path);
  if (unknown) {
    read_unknown(family, keys, with_nulls, config);
    refuse_unread_keys(family, object, keys, with_nulls);
    config.predicted.add(fmt::format("an unknown model_type, {}, read as {} by its keys",
                                     printable(keys.string("model_type"), 60), family.architecture));
  } else {
    read_family(family, keys, with_nulls, config);
  }
  config.predicted.vision = read_vision_tower(file, origin, config.hidden);
  if (!config.predicted.names.empty() || keeps_keys(family))
    config.predicted.keys = kept_keys(family, object, keys, with_nulls, unknown);
  const double count = count_parameters<double>(config, config.mixture.experts);
  if (count > kMaxParameters) {
    throw InputError(fmt::format("{}: found sizes of {:.3g} parameters, expected at most {:.0e}", origin,
                                 count, kMaxParameters));
  }
  return config;
}

ModelConfig load_model_config(const std::string& path) {
  ModelConfig config = parse_model_config(read_text_file(path, kMaxModelFileBytes), path);
  config.name = path;  // a file's own idea of its name is often another machine's path
  config.source.file = std::filesystem::absolute(path).lexically_normal().string();
  return config;
}

std::string to_config_json(const ModelConfig& config) {
  Json out = {{"_name_or_path", config.name},
              {"model_type", config.architecture},
              {"tie_word_embeddings", config.embedding.tied}};
  const Family* found = find_family(config.architecture);
  const Family& family = found == nullptr ? families().front() : *found;
  if (found != nullptr) out["model_type"] = family.type();
  write_family(family, config, out);
  if (!config.predicted.keys.empty()) {
    const Json kept = Json::parse(config.predicted.keys);
    if (kept.contains("rope_parameters")) out.erase("rope_scaling");
    out.update(kept);
  }
  if (config.predicted.vision) out["vision_config"] = Json::parse(config.predicted.vision.keys);
  return out.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace plumbline
