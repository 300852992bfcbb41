#include "core/launch_files/megatron/model/megatron_mixture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/launch_files/megatron/model/expert_layers.hpp"

namespace plumbline {
namespace {

constexpr const char* kSinks = "--softmax-type";
constexpr const char* kWindows = "--window-attn-skip-freq";

/// True for the layers that have experts.
std::vector<bool> layers_with_experts(const LaunchArguments& from, std::int64_t layers) {
  const char* const flag = "--moe-layer-freq";
  const LaunchArgument* const given = from.find(flag);
  std::vector<bool> experts(static_cast<std::size_t>(layers), true);
  if (given == nullptr) return experts;
  const std::vector<std::int64_t> list = expert_layers(given->values);
  const auto is_switch = [](std::int64_t each) { return each == 0 || each == 1; };
  if (list.size() == 1 && list[0] >= 1) {  // every Nth layer, from the first on
    for (std::size_t i = 0; i < experts.size(); ++i) experts[i] = i % static_cast<std::size_t>(list[0]) == 0;
    return experts;
  }
  if (static_cast<std::int64_t>(list.size()) != layers || !std::all_of(list.begin(), list.end(), is_switch) ||
      std::find(list.begin(), list.end(), 1) == list.end())
    from.refuse(flag, "1, or a list of 0 and 1 for all layers, such as ([0]*3+[1]*58)");
  for (std::size_t i = 0; i < experts.size(); ++i) experts[i] = list[i] == 1;
  return experts;
}

/// Numbers of the layers with experts, or of those without.
Json layer_numbers(const std::vector<bool>& experts, bool with) {
  Json numbers = Json::array();
  for (std::size_t i = 0; i < experts.size(); ++i)
    if (experts[i] == with) numbers.push_back(i);
  return numbers;
}

/// Llama-4: one expert of each token and a shared one of its size, in some layers.
Json llama4_of(const LaunchArguments& from, const MegatronShape& shape, const std::vector<bool>& experts,
               std::int64_t ffn, Json json) {
  if (from.integer("--moe-shared-expert-intermediate-size", 0) != ffn)
    from.refuse("--moe-shared-expert-intermediate-size",
                fmt::format("the experts' {} where some layers behind the first have no experts", ffn));
  json["model_type"] = "llama4_text";
  json["num_local_experts"] = needed(from, "--num-experts");
  json["intermediate_size"] = ffn;
  json["intermediate_size_mlp"] = shape.ffn;
  json["moe_layers"] = layer_numbers(experts, true);
  json["attention_bias"] = shape.qkv_bias;
  json["use_qk_norm"] = shape.qk_norm;
  json["no_rope_layer_interval"] = 10'000;  // beyond the last layer
  json["attention_chunk_size"] = nullptr;
  json.erase("moe_intermediate_size");
  return json;
}

}  // namespace

bool is_gpt_oss(const LaunchArguments& from, const MegatronShape& shape, bool experts) {
  return experts && from.text(kSinks, "vanilla") == "learnable" && from.text(kWindows, "None") == "2" &&
         from.has("--window-size") && shape.activation == kQuickGate && shape.rms && shape.rope &&
         !shape.qk_norm;
}

void refuse_parts_of_gpt_oss(const LaunchArguments& from) {
  constexpr const char* kAlone =
      "only gpt-oss's layers have it, with experts, --quick-geglu, --softmax-type learnable, --window-size "
      "and "
      "--window-attn-skip-freq 2";
  if (from.on("--quick-geglu")) from.not_modelled("--quick-geglu", kAlone);
  if (from.text(kSinks, "vanilla") != "vanilla") from.not_modelled(kSinks, kAlone);
  if (from.text(kWindows, "None") != "None") from.not_modelled(kWindows, kAlone);
}

Json gpt_oss(const LaunchArguments& from, const MegatronShape& shape) {
  Json json;
  put_common(from, shape, json);
  const std::int64_t ffn = from.integer("--moe-ffn-hidden-size", 0);
  json["model_type"] = "gpt_oss";
  json["hidden_act"] = "silu";
  json["intermediate_size"] = ffn == 0 ? shape.ffn : ffn;
  json["rms_norm_eps"] = from.number("--norm-epsilon", 1e-5);
  json["num_local_experts"] = needed(from, "--num-experts");
  json["num_experts_per_tok"] = from.integer("--moe-router-topk", 2);
  json["attention_bias"] = shape.qkv_bias;
  json["mlp_bias"] = shape.bias;
  json["sliding_window"] = window_of(from);
  return json;
}

Json mixture_of(const LaunchArguments& from, const MegatronShape& shape) {
  Json json;
  put_common(from, shape, json);
  if (!shape.rms || shape.activation != "silu" || !shape.rope || shape.bias || from.has("--window-size"))
    refuse_layers(from, shape, "--num-experts",
                  "RMSNorm, swiglu, rope, no biases of linear layers and no windows with experts");
  json["rms_norm_eps"] = from.number("--norm-epsilon", 1e-5);
  const std::int64_t experts = needed(from, "--num-experts");
  const std::int64_t ffn =
      from.integer("--moe-ffn-hidden-size", 0) == 0 ? shape.ffn : from.integer("--moe-ffn-hidden-size", 0);
  const std::int64_t shared = from.integer("--moe-shared-expert-intermediate-size", 0);
  const std::vector<bool> layers = layers_with_experts(from, shape.layers);
  const bool in_front = std::is_sorted(layers.begin(), layers.end());
  const std::int64_t first_dense = in_front ? std::count(layers.begin(), layers.end(), false) : 0;
  const std::string scores = from.text("--moe-router-score-function", "softmax");
  const bool latent = from.on("--multi-latent-attention");
  const bool normalized = !from.on("--moe-router-pre-softmax");
  if (from.integer("--moe-router-topk", 2) > experts)
    from.refuse("--moe-router-topk", fmt::format("at most the {} experts", experts));
  json["num_experts_per_tok"] = from.integer("--moe-router-topk", 2);
  json["moe_intermediate_size"] = ffn;
  if (!in_front && scores == "sigmoid" && !latent)
    return llama4_of(from, shape, layers, ffn, std::move(json));
  if (!in_front && (latent || scores != "softmax"))
    from.refuse("--moe-layer-freq", "dense layers in front, then experts, with these layers");
  if (latent || scores == "sigmoid" || first_dense > 0 ||
      (shared > 0 && !from.on("--moe-shared-expert-gate"))) {
    const bool softmax = latent && scores == "softmax";  // DeepSeek-V2
    if (!softmax && scores != "sigmoid")
      from.refuse("--moe-router-score-function", "sigmoid with these layers");
    if (ffn < 1 || shared % ffn != 0)
      from.refuse("--moe-shared-expert-intermediate-size", fmt::format("a multiple of the experts' {}", ffn));
    json["model_type"] = softmax ? "deepseek_v2" : latent ? "deepseek_v3" : "glm4_moe";
    json["n_routed_experts"] = experts;
    json["n_shared_experts"] = shared / ffn;
    json["first_k_dense_replace"] = first_dense;
    json["norm_topk_prob"] = !softmax || normalized;
    if (softmax && from.integer("--moe-router-num-groups", 1) > 1)
      json["topk_method"] = "group_limited_greedy";
    const double scale = from.number("--moe-router-topk-scaling-factor", 0);
    json["routed_scaling_factor"] = scale == 0 ? 1.0 : scale;
    json["n_group"] = std::max<std::int64_t>(1, from.integer("--moe-router-num-groups", 1));
    json["topk_group"] = std::max<std::int64_t>(1, from.integer("--moe-router-group-topk", 1));
    if (latent) {
      json.erase("head_dim");
      json["num_key_value_heads"] = shape.heads;
      const std::int64_t rank = from.has("--q-lora-rank") && from.text("--q-lora-rank", "") != "None"
                                    ? from.integer("--q-lora-rank", 0)
                                    : 0;
      json["q_lora_rank"] = rank == 0 ? Json(nullptr) : Json(rank);
      json["kv_lora_rank"] = from.integer("--kv-lora-rank", 32);
      json["qk_nope_head_dim"] = from.integer("--qk-head-dim", 128);
      json["qk_rope_head_dim"] = from.integer("--qk-pos-emb-head-dim", 64);
      json["v_head_dim"] = from.integer("--v-head-dim", 128);
      if (!softmax) json["rope_interleave"] = true;
    } else {
      json["attention_bias"] = shape.qkv_bias;
      json["use_qk_norm"] = shape.qk_norm;
      json["partial_rotary_factor"] = from.number("--rotary-percent", 1);
    }
    return json;
  }
  json["num_experts"] = experts;
  json["norm_topk_prob"] = normalized;
  if (shared > 0 || (shape.qkv_bias && !shape.qk_norm)) {
    if (shape.qk_norm || shared == 0) refuse_layers(from, shape);
    json["model_type"] = "qwen2_moe";
    json["shared_expert_intermediate_size"] = shared;
    json["qkv_bias"] = shape.qkv_bias;
  } else if (shape.qk_norm) {
    if (shape.qkv_bias) refuse_layers(from, shape);
    json["model_type"] = "qwen3_moe";
  } else {
    json["model_type"] = "mixtral";
    json["intermediate_size"] = ffn;
    if (!in_front)
      from.refuse("--moe-layer-freq", "dense layers in front, then experts, without --qk-layernorm");
    json.erase("moe_intermediate_size");
    json.erase("num_experts");
    json.erase("norm_topk_prob");
    json["num_local_experts"] = experts;
  }
  if (!in_front) {
    json["mlp_only_layers"] = layer_numbers(layers, false);
    json["intermediate_size"] = shape.ffn;
  }
  return json;
}

}  // namespace plumbline
