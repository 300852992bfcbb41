// Fields of recent dense models. Sources: as in predicted_families.cpp.
#include "core/config/families/predicted_readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text_input.hpp"
#include "core/config/families/family_readers.hpp"
#include "core/config/sliding_window.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kWidestWindow = std::int64_t{1} << 30;

void put_windows(SlidingWindow windows, ModelConfig& config) {
  config.window.size = windows.sliding_window;
  config.window.full_layers = std::move(windows.full_attention);
}

/// As read_periodic_windows, with the period under `key` (nullptr: it is fixed).
void read_period(const JsonKeys& keys, const char* key, std::int64_t period, ModelConfig& config) {
  if (key != nullptr) period = keys.integer_or(key, kMostLayers, period);
  put_windows(
      read_periodic_windows(keys.integer_or("sliding_window", kWidestWindow, 0), period, config.layers, keys),
      config);
}

/// Biases of attention's result, which a norm may follow.
void read_normed_attention(const JsonKeys& keys, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  if (config.predicted.norms != NormPlaces::before && config.has_projection_bias())
    config.predicted.add("biases in front of norms");
}

void read_soft_caps(const JsonKeys& keys, ModelConfig& config) {
  bool capped = false;
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    capped = keys.number_or(key, 0, 1e9, 0) != 0 || capped;
  if (capped) config.predicted.add("soft caps");
}

/// rope_theta and rope_scaling are of the layers that see all keys alone; the others have the default base.
bool rotates_windows_otherwise(const JsonKeys& keys, const ModelConfig& config) {
  constexpr double kDefaultBase = 5e5;
  if (keys.find("rope_parameters") != nullptr) {
    const JsonKeys all = keys.object("rope_parameters");
    const Json* full = all.find("full_attention");
    const Json* windows = all.find("sliding_attention");
    if (full != nullptr && windows != nullptr) return *full != *windows;
  }
  return config.rotary.theta != kDefaultBase || config.rotary.scaling.factor != 1;
}

void read_factor(const JsonKeys& keys, const char* key) {
  keys.number_or(key, -1e9, 1e9, 1);
}

}  // namespace

std::vector<bool> read_rope_layers(const JsonKeys& keys, const ModelConfig& config) {
  const std::int64_t interval = keys.integer_or("no_rope_layer_interval", kMostLayers, 4);
  std::vector<bool> rotated;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) rotated.push_back((layer + 1) % interval != 0);
  const char* const key = "no_rope_layers";
  if (keys.find(key) == nullptr || keys.list(key, kMostLayers).empty()) return rotated;
  const std::vector<double> given = keys.numbers(key, 0, 1, kMostLayers);
  if (std::ssize(given) < config.layers) {
    keys.fail(key, fmt::format("found {} entries, expected one for each of the {} layers", given.size(),
                               config.layers));
  }
  for (std::size_t layer = 0; layer < rotated.size(); ++layer) rotated[layer] = given[layer] != 0;
  return rotated;
}

void read_gemma2(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("use_bidirectional_attention", false, false);
  read_normed_attention(keys, config);
  read_soft_caps(keys, config);
  const double head =
      static_cast<double>(config.head_dim > 0 ? config.head_dim : config.hidden / config.heads);
  config.multipliers.attention = std::sqrt(head / keys.number_or("query_pre_attn_scalar", 1e-3, 1e9, head));
  read_period(keys, nullptr, 2, config);
}

void read_gemma3(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("use_bidirectional_attention", false, false);
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  read_soft_caps(keys, config);
  keys.number_or("query_pre_attn_scalar", 0, 1e9, 1);
  keys.number_or("rope_local_base_freq", 1, 1e15, 1e4);
  read_period(keys, "sliding_window_pattern", 6, config);
}

void read_olmo(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_normed_attention(keys, config);
  if (keys.number_or("clip_qkv", 0, 1e9, 0) != 0) config.predicted.add("clipped queries, keys and values");
}

void read_olmo3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_olmo(keys, with_nulls, config);
  read_period(keys, nullptr, 4, config);
  if (config.window.size > 0 && rotates_windows_otherwise(keys, config))
    config.predicted.add("rotary embeddings of two kinds");
}

/// sliding_window_pattern: a number, or letters such as "LLLG", of which G stands for a layer that sees all
/// keys. Those have no rotary embeddings where others have a window.
void read_exaone4(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const char* const key = "sliding_window_pattern";
  std::int64_t period = 0;
  if (const Json* pattern = keys.find(key)) {
    if (!pattern->is_string()) {
      period = keys.integer(key, 0, kMostLayers);
    } else {
      const std::string letters = keys.string(key);
      period = std::ssize(letters);
      if (letters.empty() || letters != std::string(letters.size() - 1, 'L') + 'G')
        keys.fail(
            key, fmt::format("found \"{}\", expected a number, or letters such as LLLG", printable(letters)));
    }
  }
  if (keys.find("sliding_window") == nullptr) period = 0;
  put_windows(
      read_periodic_windows(keys.integer_or("sliding_window", kWidestWindow, 0), period, config.layers, keys),
      config);
  if (keys.find("sliding_window") == nullptr) return;
  config.rotary.unrotated = config.window.full_layers;
  if (config.window.size == 0) config.rotary.unrotated.assign(static_cast<std::size_t>(config.layers), true);
}

void read_smollm3(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), keys.boolean_or("mlp_bias", false), config);
  const std::vector<bool> rotated = read_rope_layers(keys, config);
  const bool all = std::find(rotated.begin(), rotated.end(), false) == rotated.end();
  for (std::size_t layer = 0; !all && layer < rotated.size(); ++layer)
    config.rotary.unrotated.push_back(!rotated[layer]);
  const std::int64_t window = keys.integer_or("sliding_window", kWidestWindow, 0);
  const bool used = keys.boolean_or("use_sliding_window", false) && window > 0;
  if (keys.find("layer_types") != nullptr) {
    put_windows(read_periodic_windows(window, 0, config.layers, keys), config);
  } else if (used && !all) {
    config.window.size = window;
    if (std::find(rotated.begin(), rotated.end(), true) != rotated.end()) config.window.full_layers = rotated;
  }
}

void read_seed_oss(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  config.biases.qkv = keys.boolean_or("attention_bias", true);
  config.predicted.projection_bias = keys.boolean_or("attention_out_bias", false);
  config.predicted.feed_forward_bias = keys.boolean_or("mlp_bias", false);
  keys.number_or("residual_dropout", 0, 1, 0);
}

void read_apertus(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be_one_of("hidden_act", {"xielu"});
  config.predicted.scalars = 2;
  set_biases(keys.boolean_or("attention_bias", false), false, config);
}

/// The file's attention_multiplier stands in place of 1/sqrt(head_dim), and logits are divided.
void read_granite(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), keys.boolean_or("mlp_bias", false), config);
  const auto factor = [&](const char* key) { return keys.number_or(key, -1e9, 1e9, 1); };
  const std::int64_t size = config.head_dim > 0 ? config.head_dim : config.hidden / config.heads;
  config.embedding.scale = factor("embedding_multiplier");
  config.multipliers.attention = factor("attention_multiplier") * std::sqrt(static_cast<double>(size));
  config.multipliers.residual = factor("residual_multiplier");
  config.multipliers.logits = 1 / keys.number_or("logits_scaling", 1e-9, 1e9, 1);
  if (config.multipliers.residual != 1 && (config.has_projection_bias() || config.has_feed_forward_bias()))
    config.predicted.add("biases with a residual multiplier");
}

void read_cohere(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  read_factor(keys, "logit_scale");
  config.norms.qk = keys.boolean_or("use_qk_norm", false);
  config.block = Block::parallel_one_norm;
}

void read_cohere2(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  read_factor(keys, "logit_scale");
  keys.must_be("use_qk_norm", false, false);
  config.block = Block::parallel_one_norm;
  read_period(keys, "sliding_window_pattern", 4, config);
  config.predicted.add("layers without rotary embeddings");
}

void read_hunyuan_dense(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  keys.must_be("mlp_bias", false, false);
  keys.must_be("use_cla", false, false);
  config.norms.qk = keys.boolean_or("use_qk_norm", true);
}

void read_ernie(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const bool bias = keys.boolean_or("use_bias", false);
  set_biases(bias, bias, config);
}

/// ministral3 has no layer_types: every layer has the window, if any.
void read_ministral(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const std::int64_t window = keys.integer_or("sliding_window", kWidestWindow, 0);
  if (config.architecture == "ministral3" || keys.find("layer_types") == nullptr) {
    config.window.size = window;
    return;
  }
  put_windows(read_periodic_windows(window, 0, config.layers, keys), config);
}

void read_minicpm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  if (keys.integer_or("num_experts", 0, 1 << 10, 0) != 0)
    keys.fail("num_experts", "found experts in a minicpm, expected 0, or none");
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  for (const char* key : {"scale_emb", "scale_depth", "dim_model_base"}) read_factor(keys, key);
}

void read_minicpm3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_latent_attention(keys, with_nulls, config);
  keys.must_be("mlp_bias", false, false);
  for (const char* key : {"scale_emb", "scale_depth", "dim_model_base"}) read_factor(keys, key);
}

void read_internlm2(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("bias", false), false, config);
}

void read_stablelm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  config.biases.qkv = keys.boolean_or("use_qkv_bias", false);
  keys.must_be("qk_layernorm", false, false);
  if (keys.boolean_or("use_parallel_residual", false)) config.block = Block::parallel_one_norm;
}

void read_gpt_neox(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  // transformers reads rope_parameters, or names of this family alone.
  if (keys.find("rope_parameters") == nullptr)
    config.rotary.theta = keys.number_or("rotary_emb_base", 1, 1e15, 10000);
  // add_family_defaults() puts the usual value there.
  const auto must_agree = [&](const char* key, double usual, double expected, const char* name) {
    const double found = keys.number_or(key, 0, 1e15, usual);
    if (found == usual || found == expected) return;
    keys.fail(key, fmt::format("found {}, which a gpt_neox does not read; expected {}", found, name));
  };
  must_agree("rope_theta", 10000, config.rotary.theta, "rotary_emb_base");
  must_agree("partial_rotary_factor", 0.25, keys.number_or("rotary_pct", 0, 1, 0.25), "rotary_pct");
  if (keys.boolean_or("use_parallel_residual", true)) config.block = Block::parallel;
  if (keys.boolean_or("attention_bias", true)) return;
  config.biases.qkv = config.biases.linear = false;
  config.predicted.feed_forward_bias = true;
}

void write_gpt_neox(const ModelConfig& config, Json& out) {
  out["rotary_emb_base"] = config.rotary.theta;
  out["rotary_pct"] = out["partial_rotary_factor"];
  out.erase("rope_theta");
  out.erase("partial_rotary_factor");
}

}  // namespace plumbline
