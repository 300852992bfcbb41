// Fields of recent MoE models. Sources: as in predicted_families.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "core/config/families/families.hpp"
#include "core/config/families/family_readers.hpp"
#include "core/config/families/predicted_readers.hpp"
#include "core/config/sliding_window.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kExpertsAtMost = 1 << 10;
constexpr std::int64_t kWidthAtMost = 1 << 22;
constexpr std::int64_t kLayersAtMost = 10'000;
constexpr std::int64_t kWindowAtMost = std::int64_t{1} << 30;

void read_numbers_of_experts(const JsonKeys& keys, const char* experts, const char* chosen,
                             ModelConfig& config) {
  Mixture& mixture = config.mixture;
  mixture.experts = keys.integer(experts, kExpertsAtMost);
  mixture.top_k = keys.integer(chosen, kExpertsAtMost);
  mixture.shared_gated = false;
  if (mixture.top_k > mixture.experts) {
    keys.fail(chosen, fmt::format("found {}, expected at most the {} of {}", mixture.top_k, mixture.experts,
                                  experts));
  }
  keys.must_be("output_router_logits", false, false);
}

/// A number, or a list with the same number for every layer.
std::int64_t alike(const JsonKeys& keys, const char* key, std::int64_t min, std::int64_t max,
                   std::int64_t layers) {
  const Json* found = keys.find(key);
  if (found == nullptr || !found->is_array()) return keys.integer(key, min, max);
  const Json& list = keys.list(key, kLayersAtMost);
  if (std::ssize(list) < layers)
    keys.fail(key,
              fmt::format("found {} entries, expected one for each of the {} layers", list.size(), layers));
  const auto number = JsonKeys::integer_in(list.front(), min, max);
  const bool same =
      std::all_of(list.begin(), list.end(), [&](const Json& entry) { return entry == list.front(); });
  if (!number || !same) {
    keys.fail(key, fmt::format("found {}, expected the same whole number from {} to {} for every layer",
                               JsonKeys::shown(*found), min, max));
  }
  return *number;
}

}  // namespace

void read_dots1(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  read_deepseek_experts(keys, config);
  const std::int64_t window = keys.integer_or("sliding_window", kWindowAtMost, 0);
  const std::int64_t limit = keys.integer_or("max_window_layers", 0, kWindowAtMost, config.layers);
  SlidingWindow windows;
  if (keys.find("layer_types") != nullptr) {
    windows = read_periodic_windows(window, 0, config.layers, keys);
  } else if (window > 0 && limit < config.layers) {
    windows.sliding_window = window;
    for (std::int64_t layer = 0; limit > 0 && layer < config.layers; ++layer)
      windows.full_attention.push_back(layer < limit);
  }
  config.window.size = windows.sliding_window;
  config.window.full_layers = std::move(windows.full_attention);
}

/// In attn_type_list, 0 is linear attention (MiniMax-M1).
void read_minimax_m2(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  if (keys.find("attn_type_list") != nullptr) {
    for (const double type : keys.numbers("attn_type_list", -1e9, 1e9, kLayersAtMost)) {
      if (type != 1) keys.fail("attn_type_list", "found layers with linear attention, expected 1 only");
    }
  }
  read_numbers_of_experts(keys, "num_local_experts", "num_experts_per_tok", config);
  config.mixture.scores = RouterScores::sigmoid;
  config.mixture.expert_bias = keys.boolean_or("use_routing_bias", true);
  keys.must_be_one_of("scoring_func", {"sigmoid"});
  if (keys.integer_or("shared_intermediate_size", 0, kWidthAtMost, 0) != 0)
    keys.fail("shared_intermediate_size", "found a shared expert in a minimax_m2, expected 0");
  config.norms.qk = keys.boolean_or("use_qk_norm", true);
  const std::string norm = keys.string_or("qk_norm_type", "per_layer");
  if (norm != "per_layer" && norm != "per_head") keys.refuse("qk_norm_type", "per_layer or per_head");
  if (norm == "per_head") config.predicted.query_norm = QueryNorm::head;
  if (keys.number_or("sliding_window", 0, 1e9, 0) != 0)
    keys.fail("sliding_window", "found a window in a minimax_m2, expected null");
}

void read_gpt_oss(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_numbers_of_experts(keys, "num_local_experts", "num_experts_per_tok", config);
  config.biases.qkv = config.predicted.projection_bias = keys.boolean_or("attention_bias", true);
  // Launch files of Megatron-LM have gpt-oss's layers without biases, too.
  config.predicted.feed_forward_bias = config.predicted.router_bias = keys.boolean_or("mlp_bias", true);
  config.predicted.sinks = true;
  keys.number_or("swiglu_limit", 0, 1e9, 7);
  keys.number_or("swiglu_alpha", -1e9, 1e9, 1.702);
  SlidingWindow windows =
      read_periodic_windows(keys.integer_or("sliding_window", kWindowAtMost, 0), 2, config.layers, keys);
  config.window.size = windows.sliding_window;
  config.window.full_layers = std::move(windows.full_attention);
}

/// Layers with rotary embeddings attend to chunks, the others to all keys.
void read_llama4(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_numbers_of_experts(keys, "num_local_experts", "num_experts_per_tok", config);
  Mixture& mixture = config.mixture;
  mixture.scores = RouterScores::sigmoid;
  mixture.shared = config.ffn;
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  config.norms.qk = keys.boolean_or("use_qk_norm", true);
  const std::int64_t step = keys.integer_or("interleave_moe_layer_step", kLayersAtMost, 1);
  std::vector<bool> experts;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) experts.push_back((layer + 1) % step == 0);
  if (keys.find("moe_layers") != nullptr) {
    std::fill(experts.begin(), experts.end(), false);
    for (const Json& layer : keys.list("moe_layers", kLayersAtMost)) {
      const auto index = JsonKeys::integer_in(layer, 0, config.layers - 1);
      if (!index) keys.refuse("moe_layers", fmt::format("layers from 0 to {}", config.layers - 1));
      experts[static_cast<std::size_t>(*index)] = true;
    }
  }
  put_experts_in_layers(std::move(experts), keys.integer("intermediate_size_mlp", kWidthAtMost), config);
  const std::vector<bool> rotated = read_rope_layers(keys, config);
  if (std::find(rotated.begin(), rotated.end(), false) != rotated.end())
    config.predicted.add("layers without rotary embeddings");
  const std::int64_t chunk = keys.integer_or("attention_chunk_size", kWindowAtMost, 0);
  std::vector<bool> full;
  full.reserve(rotated.size());
  for (const bool rotary : rotated) full.push_back(!rotary || chunk == 0);
  if (keys.find("layer_types") != nullptr) {
    full = read_periodic_windows(1, 0, config.layers, keys, "chunked_attention").full_attention;
    if (full.empty() && keys.find("layer_types")->front() == "full_attention") return;
  } else if (std::find(full.begin(), full.end(), false) == full.end()) {
    return;
  }
  if (chunk == 0) keys.fail("attention_chunk_size", "found null with chunked_attention, expected a number");
  config.window.size = chunk;
  config.predicted.chunked = true;
  if (std::find(full.begin(), full.end(), true) != full.end()) config.window.full_layers = std::move(full);
  config.predicted.add("attention to chunks");
}

void read_ernie_moe(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_numbers_of_experts(keys, "moe_num_experts", "moe_k", config);
  config.mixture.shared = keys.integer_or("moe_num_shared_experts", 0, kExpertsAtMost, 0) * config.ffn;
  config.mixture.expert_bias = true;
  keys.must_be("use_bias", false, false);
  keys.must_be("moe_use_aux_free", true, true);
  const std::int64_t first = keys.integer_or("moe_layer_start_index", 0, kLayersAtMost, 1);
  const std::int64_t last = keys.integer_or("moe_layer_end_index", -1, kLayersAtMost, -1);
  const std::int64_t step = keys.integer_or("moe_layer_interval", kLayersAtMost, 1);
  std::vector<bool> experts;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    experts.push_back((layer + 1) % step == 0 && layer >= first && (last == -1 || layer <= last));
  put_experts_in_layers(std::move(experts), keys.integer("intermediate_size", kWidthAtMost), config);
}

/// Lists have an entry for every layer. Without moe_intermediate_size, experts are intermediate_size wide.
void read_hunyuan_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_hunyuan_dense(keys, with_nulls, config);
  Mixture& mixture = config.mixture;
  const std::int64_t dense_ffn = config.ffn;
  mixture.experts = alike(keys, "num_experts", 1, kExpertsAtMost, config.layers);
  mixture.top_k = alike(keys, "moe_topk", 1, mixture.experts, config.layers);
  keys.must_be("output_router_logits", false, false);
  if (keys.find("moe_intermediate_size") != nullptr)
    config.ffn = alike(keys, "moe_intermediate_size", 1, kWidthAtMost, config.layers);
  const bool counted = keys.find("num_shared_expert") != nullptr;
  mixture.shared =
      config.ffn * (counted ? alike(keys, "num_shared_expert", 0, kExpertsAtMost, config.layers) : 1);
  mixture.shared_gated = false;
  std::vector<bool> experts(static_cast<std::size_t>(config.layers), true);
  std::fill_n(experts.begin(), keys.integer_or("moe_layer_num_skipped", 0, config.layers - 1, 0), false);
  put_experts_in_layers(std::move(experts), dense_ffn, config);
}

void read_olmoe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_numbers_of_experts(keys, "num_experts", "num_experts_per_tok", config);
  config.mixture.normalized = keys.boolean_or("norm_topk_prob", false);
  read_olmo(keys, with_nulls, config);
}

void read_phimoe(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_numbers_of_experts(keys, "num_local_experts", "num_experts_per_tok", config);
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  config.biases.output = keys.boolean_or("lm_head_bias", false);
  config.window.size = keys.integer_or("sliding_window", kWindowAtMost, 0);
  for (const char* key : {"router_jitter_noise", "input_jitter_noise"}) keys.number_or(key, 0, 1, 0);
}

void read_granite_moe(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  read_numbers_of_experts(keys, "num_local_experts", "num_experts_per_tok", config);
  config.mixture.shared = keys.integer_or("shared_intermediate_size", 0, kWidthAtMost, 0);
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  keys.find("layer_types");  // of granitemoehybrid
  for (const char* key :
       {"embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"}) {
    keys.number_or(key, -1e9, 1e9, 1);
  }
}

/// Layers with attention or a Mamba mixer. Without experts, the MLP is the shared one.
void read_granite_hybrid(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  if (keys.integer_or("num_local_experts", 0, kExpertsAtMost, 0) > 0) {
    read_granite_moe(keys, with_nulls, config);
  } else {
    read_granite(keys, with_nulls, config);
    config.ffn = keys.integer("shared_intermediate_size", kWidthAtMost);
    keys.find("layer_types");
  }
  read_granite_mamba(keys, config);
}

/// Sizes of attention and experts stand in objects of their own.
void read_dbrx(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const JsonKeys attention = keys.object("attn_config");
  config.kv_heads = attention.integer("kv_n_heads", 1 << 14);
  config.rotary.theta = attention.number_or("rope_theta", 1, 1e15, config.rotary.theta);
  const JsonKeys experts = keys.object("ffn_config");
  config.ffn = experts.integer("ffn_hidden_size", kWidthAtMost);
  read_numbers_of_experts(experts, "moe_num_experts", "moe_top_k", config);
  config.mixture.normalized = experts.number_or("moe_normalize_expert_weights", 0, 1e9, 0) == 1;
  if (attention.number_or("clip_qkv", 0, 1e9, 0) != 0)
    config.predicted.add("clipped queries, keys and values");
}

void read_deepseek_v2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_latent_attention(keys, with_nulls, config);
  keys.must_be("mlp_bias", false, false);
  Mixture& mixture = config.mixture;
  read_experts(keys, "n_routed_experts|num_experts", config);
  mixture.normalized = keys.boolean_or("norm_topk_prob", false);
  mixture.shared = keys.integer_or("n_shared_experts", 0, kExpertsAtMost, 0) * config.ffn;
  mixture.shared_gated = false;
  mixture.first_dense = keys.integer_or("first_k_dense_replace", 0, config.layers - 1, 0);
  if (mixture.first_dense > 0) mixture.dense_ffn = keys.integer("intermediate_size", kWidthAtMost);
  mixture.routed_scale = keys.number_or("routed_scaling_factor", 0, 1e6, 1);
  const std::string method = keys.string_or("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    keys.refuse("topk_method", "greedy or group_limited_greedy");
  if (method == "group_limited_greedy") read_groups(keys, mixture);
  keys.must_be_one_of("scoring_func", {"softmax"});
  if (keys.integer_or("moe_layer_freq", kExpertsAtMost, 1) != 1)
    keys.fail("moe_layer_freq", "found layers without experts in between, supported is 1 only");
}

}  // namespace plumbline
