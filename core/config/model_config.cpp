#include "core/config/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/config/model_classes.hpp"
#include "core/config/sliding_window.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxModelFileBytes = std::size_t{1} << 20;
constexpr double kMaxParameters = 1e15;

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxHidden = 1 << 20;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadDim = 1 << 12;
constexpr std::int64_t kMaxFfn = 1 << 22;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

/// model_type, or the first entry of architectures ("Qwen2ForCausalLM").
std::string architecture_of(const JsonKeys& keys) {
  static const char* const kSupported = "supported: llama, mistral, qwen2, gpt2";
  std::string type = keys.string_or("model_type", "");
  if (!type.empty()) {
    for (const ModelClass& known : kModelClasses) {
      if (type == known.architecture) return type;
    }
    keys.fail("model_type", fmt::format("found \"{}\", {}", printable(type), kSupported));
  }
  const Json* classes = keys.find("architectures");
  if (classes == nullptr) keys.fail("model_type", fmt::format("missing; {}", kSupported));
  if (classes->is_array() && classes->size() == 1 && classes->front().is_string()) {
    for (const ModelClass& known : kModelClasses) {
      if (classes->front().get<std::string>() == known.name) return std::string(known.architecture);
    }
  }
  keys.fail("architectures", fmt::format("found {}, supported: LlamaForCausalLM, MistralForCausalLM, "
                                         "Qwen2ForCausalLM, GPT2LMHeadModel",
                                         JsonKeys::shown(*classes)));
}

void read_rope(const JsonKeys& keys, ModelConfig& config) {
  constexpr double kMaxTheta = 1e15;
  config.rope_theta = keys.number_or("rope_theta", 1, kMaxTheta, config.rope_theta);
  // transformers 5 keeps theta and scaling together under rope_parameters, older ones apart.
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (keys.find(name) == nullptr) continue;
    const JsonKeys rope = keys.object(name);
    config.rope_theta = rope.number_or("rope_theta", 1, kMaxTheta, config.rope_theta);
    const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
    if (type == "default") continue;
    if (type != "llama3") {
      rope.fail("rope_type", fmt::format("found \"{}\", supported: default, llama3", printable(type)));
    }
    for (const char* key :
         {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      if (rope.find(key) == nullptr) rope.fail(key, "missing; rope_type llama3 needs it");
    }
    config.rope_scaling.factor = rope.number_or("factor", 1, 1e6, 1);
    config.rope_scaling.low_freq_factor = rope.number_or("low_freq_factor", 1e-6, 1e6, 1);
    config.rope_scaling.high_freq_factor = rope.number_or("high_freq_factor", 1e-6, 1e6, 4);
    config.rope_scaling.original_max_positions =
        rope.integer("original_max_position_embeddings", kMaxPositions);
    if (config.rope_scaling.high_freq_factor <= config.rope_scaling.low_freq_factor) {
      rope.fail("high_freq_factor",
                fmt::format("found {}, expected more than low_freq_factor {}",
                            config.rope_scaling.high_freq_factor, config.rope_scaling.low_freq_factor));
    }
    if (config.rope_scaling.factor == 1) config.rope_scaling = {};
  }
  const double partial = keys.number_or("partial_rotary_factor", 0, 1, 1);
  if (partial != 1) keys.fail("partial_rotary_factor", fmt::format("found {}, supported is 1 only", partial));
}

/// llama, mistral and qwen2: one family, the same keys.
void read_llama_family(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  config.layers = keys.integer("num_hidden_layers", kMaxLayers);
  config.hidden = keys.integer("hidden_size", kMaxHidden);
  config.heads = keys.integer("num_attention_heads", kMaxHeads);
  // Only Llama's own default is "as many as query heads"; the others must say.
  config.kv_heads = config.architecture == "llama"
                        ? keys.integer_or("num_key_value_heads", kMaxHeads, config.heads)
                        : keys.integer("num_key_value_heads", kMaxHeads);
  config.ffn = keys.integer("intermediate_size", kMaxFfn);
  config.vocab = keys.integer("vocab_size", kMaxVocab);
  config.max_positions = keys.integer("max_position_embeddings", kMaxPositions);
  config.head_dim = keys.integer_or("head_dim", kMaxHeadDim, 0);
  config.norm_epsilon = keys.number_or("rms_norm_eps", 0, 1, 1e-6);
  config.tied_embeddings = keys.boolean_or("tie_word_embeddings", false);
  keys.must_be_one_of("hidden_act", {"silu", "swish"});
  read_rope(keys, config);
  SlidingWindow windows = read_sliding_window(config.architecture, config.layers, keys, with_nulls);
  config.sliding_window = windows.sliding_window;
  config.full_attention = std::move(windows.full_attention);
  config.qkv_bias = config.architecture == "qwen2";
  if (config.architecture == "llama") {
    const bool attention = keys.boolean_or("attention_bias", false);
    const bool mlp = keys.boolean_or("mlp_bias", false);
    if (attention != mlp) {
      keys.fail("mlp_bias",
                fmt::format("found {} with attention_bias {}; supported: both or neither", mlp, attention));
    }
    config.qkv_bias = config.linear_bias = attention;
  }
}

void read_gpt2(const JsonKeys& keys, ModelConfig& config) {
  config.layers = keys.integer("n_layer", kMaxLayers);
  config.hidden = keys.integer("n_embd", kMaxHidden);
  config.heads = keys.integer("n_head", kMaxHeads);
  config.kv_heads = config.heads;
  config.ffn = keys.integer_or("n_inner", kMaxFfn, 4 * config.hidden);
  config.vocab = keys.integer("vocab_size", kMaxVocab);
  config.max_positions = keys.integer("n_positions", kMaxPositions);
  config.norm_epsilon = keys.number_or("layer_norm_epsilon", 0, 1, 1e-5);
  config.tied_embeddings = keys.boolean_or("tie_word_embeddings", true);
  keys.must_be_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  keys.must_be("scale_attn_weights", true, true);
  keys.must_be("scale_attn_by_inverse_layer_idx", false, false);
  keys.must_be("add_cross_attention", false, false);
  config.norm = Norm::layer;
  config.activation = Activation::gelu;
  config.positions = Positions::learned;
  config.qkv_bias = config.linear_bias = true;
}

void check_heads(const JsonKeys& keys, ModelConfig& config) {
  const bool gpt2 = config.architecture == "gpt2";
  const char* heads_key = gpt2 ? "n_head" : "num_attention_heads";
  if (config.head_dim == 0) {
    if (config.hidden % config.heads != 0) {
      keys.fail(heads_key, fmt::format("found {}, expected a divisor of {} {}{}", config.heads,
                                       gpt2 ? "n_embd" : "hidden_size", config.hidden,
                                       gpt2 ? "" : " (or give head_dim)"));
    }
    config.head_dim = config.hidden / config.heads;
    if (config.head_dim > kMaxHeadDim) {
      keys.fail(heads_key, fmt::format("found {}, which makes heads {} wide; expected at most {}",
                                       config.heads, config.head_dim, kMaxHeadDim));
    }
  }
  if (config.heads % config.kv_heads != 0) {
    keys.fail("num_key_value_heads", fmt::format("found {}, expected a divisor of num_attention_heads {}",
                                                 config.kv_heads, config.heads));
  }
  if (config.positions == Positions::rotary && config.head_dim % 2 != 0) {
    keys.fail("head_dim", fmt::format("found {}, expected an even number: rotary embeddings turn pairs",
                                      config.head_dim));
  }
}

/// Parameters without the danger of overflow; exact only below 2^53.
template <class Number>
Number count_parameters(const ModelConfig& config) {
  const Number h(config.hidden);
  const Number q = Number(config.heads) * Number(config.head_dim);
  const Number kv = Number(config.kv_heads) * Number(config.head_dim);
  const Number fc1 = Number(config.ffn) * Number(config.activation == Activation::swiglu ? 2 : 1);
  const Number norm = h * Number(config.norm == Norm::layer ? 2 : 1);
  Number layer = norm * 2 + h * (q + kv * 2) + q * h + fc1 * h + Number(config.ffn) * h;
  if (config.qkv_bias) layer += q + kv * 2;
  if (config.linear_bias) layer += h + fc1 + h;
  Number total = layer * Number(config.layers) + norm + Number(config.vocab) * h;
  if (config.positions == Positions::learned) total += Number(config.max_positions) * h;
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
  config.architecture = architecture_of(keys);
  config.name = keys.string_or("_name_or_path", origin);
  config.init_std = keys.number_or("initializer_range", 0, 10, 0.02);
  if (config.architecture == "gpt2") {
    read_gpt2(keys, config);
  } else {
    read_llama_family(keys, JsonKeys(object, origin, JsonNull::refused), config);
  }
  check_heads(keys, config);
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
              {"vocab_size", config.vocab},
              {"initializer_range", config.init_std},
              {"tie_word_embeddings", config.tied_embeddings}};
  if (config.architecture == "gpt2") {
    out.update({{"architectures", {"GPT2LMHeadModel"}},
                {"n_layer", config.layers},
                {"n_embd", config.hidden},
                {"n_head", config.heads},
                {"n_inner", config.ffn},
                {"n_positions", config.max_positions},
                {"layer_norm_epsilon", config.norm_epsilon},
                {"activation_function", "gelu_new"}});
  } else {
    out.update({{"num_hidden_layers", config.layers},
                {"hidden_size", config.hidden},
                {"num_attention_heads", config.heads},
                {"num_key_value_heads", config.kv_heads},
                {"head_dim", config.head_dim},
                {"intermediate_size", config.ffn},
                {"max_position_embeddings", config.max_positions},
                {"rms_norm_eps", config.norm_epsilon},
                {"hidden_act", "silu"},
                {"rope_theta", config.rope_theta}});
    if (config.architecture == "llama") {
      out["attention_bias"] = config.qkv_bias;
      out["mlp_bias"] = config.linear_bias;
    }
    write_sliding_window(config.architecture, {config.sliding_window, config.full_attention}, out);
    if (config.rope_scaling.factor != 1) {
      out["rope_scaling"] = {
          {"rope_type", "llama3"},
          {"factor", config.rope_scaling.factor},
          {"low_freq_factor", config.rope_scaling.low_freq_factor},
          {"high_freq_factor", config.rope_scaling.high_freq_factor},
          {"original_max_position_embeddings", config.rope_scaling.original_max_positions}};
    }
  }
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
