#include "core/launch_files/megatron/megatron_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/megatron/expert_layers.hpp"
#include "core/launch_files/megatron/megatron_vocabulary.hpp"

namespace plumbline {
namespace {

std::int64_t needed(const LaunchArguments& from, const std::string& flag) {
  if (!from.has(flag)) {
    throw InputError(fmt::format("{}: missing, expected a whole number: the model's shape needs it", flag));
  }
  return from.integer(flag, 0);
}

struct MegatronShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  bool rms = false, rope = false, bias = false, qkv_bias = false, qk_norm = false;
  std::string activation;
};

MegatronShape shape_of(const LaunchArguments& from) {
  MegatronShape shape;
  shape.layers = needed(from, from.has("--encoder-num-layers") ? "--encoder-num-layers" : "--num-layers");
  shape.hidden = needed(from, "--hidden-size");
  shape.heads = needed(from, "--num-attention-heads");
  if (shape.heads < 1) from.refuse("--num-attention-heads", "1 or more");
  shape.kv_heads = from.on("--group-query-attention") ? from.integer("--num-query-groups", 1) : shape.heads;
  const bool gated = from.on("--swiglu");
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0)
    from.refuse("--num-query-groups", fmt::format("a divisor of the {} attention heads", shape.heads));
  shape.head_dim = from.has("--kv-channels") && from.text("--kv-channels", "") != "None"
                       ? from.integer("--kv-channels", 0)
                       : 0;
  if (shape.head_dim == 0) {
    if (shape.hidden % shape.heads != 0)
      from.refuse("--num-attention-heads",
                  fmt::format("a divisor of --hidden-size {}, or --kv-channels with it", shape.hidden));
    shape.head_dim = shape.hidden / shape.heads;
  }
  shape.ffn = from.integer("--ffn-hidden-size", 0);
  if (shape.ffn == 0) shape.ffn = gated ? shape.hidden * 8 / 3 / 64 * 64 : 4 * shape.hidden;
  const std::string norm = from.text("--normalization", "LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm") from.refuse("--normalization", "LayerNorm or RMSNorm");
  shape.rms = norm == "RMSNorm";
  const std::string positions = from.text("--position-embedding-type", "learned_absolute");
  shape.rope = positions == "rope" || positions == "yarn" || from.on("--use-rotary-position-embeddings");
  if (!shape.rope && positions != "learned_absolute")
    from.refuse("--position-embedding-type", "rope, yarn or learned_absolute");
  shape.bias = !from.on("--disable-bias-linear");
  shape.qkv_bias = shape.bias || from.on("--add-qkv-bias");
  shape.qk_norm = from.on("--qk-layernorm");
  shape.activation = gated ? "silu" : from.on("--squared-relu") ? "relu2" : "gelu_new";
  return shape;
}

/// Megatron-Bridge does without it where positions are rotary.
std::int64_t max_positions(const LaunchArguments& from, const MegatronShape& shape) {
  const char* const flag = "--max-position-embeddings";
  if (from.has(flag) || !shape.rope || from.file().framework == "Megatron-LM") return needed(from, flag);
  return needed(from, "--seq-length");
}

void put_common(const LaunchArguments& from, const MegatronShape& shape, Json& json) {
  json["num_hidden_layers"] = shape.layers;
  json["hidden_size"] = shape.hidden;
  json["num_attention_heads"] = shape.heads;
  json["num_key_value_heads"] = shape.kv_heads;
  json["head_dim"] = shape.head_dim;
  json["intermediate_size"] = shape.ffn;
  json["hidden_act"] = shape.activation;
  json["max_position_embeddings"] = max_positions(from, shape);
  json["tie_word_embeddings"] = !from.on("--untie-embeddings-and-output-weights");
  json["initializer_range"] = from.number("--init-method-std", 0.02);
  if (!shape.rope) return;
  json["rope_theta"] = from.number("--rotary-base", 10000);
  if (!from.on("--use-rope-scaling")) return;
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", from.number("--rope-scaling-factor", 8)},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
}

constexpr const char* kFamilies =
    "layers that a family of models has (GPT-2: LayerNorm, gelu, learned, biases; Llama and Qwen: RMSNorm, "
    "swiglu, rope; Nemotron: LayerNorm, gelu or squared relu, rope)";

/// Refuses layers for `flag`, unless an argument that is not modelled makes them what they are.
[[noreturn]] void refuse_layers(const LaunchArguments& from, const MegatronShape& shape,
                                const char* flag = "--normalization",
                                const std::string& expected = kFamilies) {
  from.file().require_modelled();
  throw InputError(fmt::format("{}: found {} with activation {}, {} positions, {}; expected {}", flag,
                               shape.rms ? "RMSNorm" : "LayerNorm", shape.activation,
                               shape.rope ? "rotary" : "learned",
                               shape.bias       ? "biases"
                               : shape.qkv_bias ? "biases of queries, keys and values"
                                                : "no biases",
                               expected));
}

Json gpt2(const LaunchArguments& from, const MegatronShape& shape, double epsilon) {
  Json json;
  const bool one_head = shape.kv_heads == 1 && shape.heads > 1;
  if (shape.kv_heads != shape.heads && !one_head)
    refuse_layers(from, shape, "--num-query-groups", "1 or as many as attention heads with these layers");
  if (shape.head_dim * shape.heads != shape.hidden)
    refuse_layers(from, shape, "--kv-channels",
                  fmt::format("{} with these layers", shape.hidden / shape.heads));
  if (!shape.bias || shape.qk_norm || shape.activation != "gelu_new") refuse_layers(from, shape);
  json["model_type"] = one_head ? "gpt_bigcode" : "gpt2";
  if (one_head) json["multi_query"] = true;
  json["n_layer"] = shape.layers;
  json["n_embd"] = shape.hidden;
  json["n_head"] = shape.heads;
  json["n_inner"] = shape.ffn;
  json["activation_function"] = shape.activation;
  json["n_positions"] = needed(from, "--max-position-embeddings");
  json["tie_word_embeddings"] = !from.on("--untie-embeddings-and-output-weights");
  json["layer_norm_epsilon"] = epsilon;
  json["initializer_range"] = from.number("--init-method-std", 0.02);
  return json;
}

Json dense(const LaunchArguments& from, const MegatronShape& shape) {
  const double epsilon = from.number("--norm-epsilon", 1e-5);
  const double rotated = from.number("--rotary-percent", 1);
  if (!shape.rms && !shape.rope) return gpt2(from, shape, epsilon);
  Json json;
  put_common(from, shape, json);
  if (!shape.rope) refuse_layers(from, shape);
  if (!shape.rms) {
    if (shape.activation == "silu" || shape.qk_norm || shape.qkv_bias != shape.bias)
      refuse_layers(from, shape);
    json["model_type"] = "nemotron";
    json["norm_eps"] = epsilon;
    json["partial_rotary_factor"] = rotated;
    json["attention_bias"] = json["mlp_bias"] = shape.bias;
    return json;
  }
  if (shape.activation != "silu") refuse_layers(from, shape);
  json["rms_norm_eps"] = epsilon;
  if (shape.qk_norm) {
    if (shape.qkv_bias || rotated != 1) refuse_layers(from, shape);
    json["model_type"] = "qwen3";
  } else if (rotated != 1) {
    if (shape.bias) refuse_layers(from, shape);
    json["model_type"] = "glm";
    json["attention_bias"] = shape.qkv_bias;
    json["partial_rotary_factor"] = rotated;
  } else if (from.has("--window-size")) {
    const std::vector<std::string>& window = from.find("--window-size")->values;
    if (shape.qkv_bias || window.empty()) refuse_layers(from, shape);
    // Keys before a query, which it sees besides its own.
    json["model_type"] = "mistral";
    json["sliding_window"] = expert_layers(window).empty() ? 0 : expert_layers(window).front() + 1;
  } else if (shape.bias) {
    json["model_type"] = "llama";
    json["attention_bias"] = json["mlp_bias"] = true;
  } else {
    json["model_type"] = shape.qkv_bias ? "qwen2" : "llama";
  }
  return json;
}

/// Layers in front that have no experts; those behind all have.
std::int64_t dense_layers(const LaunchArguments& from, std::int64_t layers) {
  const LaunchArgument* const given = from.find("--moe-layer-freq");
  if (given == nullptr) return 0;
  const std::vector<std::int64_t> list = expert_layers(given->values);
  if (list.size() == 1 && list[0] == 1) return 0;
  const auto first = std::find(list.begin(), list.end(), 1);
  if (static_cast<std::int64_t>(list.size()) != layers || first == list.end() ||
      std::any_of(first, list.end(), [](std::int64_t each) { return each != 1; }))
    from.refuse("--moe-layer-freq",
                "1, or a list such as ([0]*3+[1]*58): dense layers in front, then experts");
  return first - list.begin();
}

Json mixture(const LaunchArguments& from, const MegatronShape& shape) {
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
  const std::int64_t first_dense = dense_layers(from, shape.layers);
  const std::string scores = from.text("--moe-router-score-function", "softmax");
  const bool latent = from.on("--multi-latent-attention");
  const bool normalized = !from.on("--moe-router-pre-softmax");
  if (from.integer("--moe-router-topk", 2) > experts)
    from.refuse("--moe-router-topk", fmt::format("at most the {} experts", experts));
  json["num_experts_per_tok"] = from.integer("--moe-router-topk", 2);
  json["moe_intermediate_size"] = ffn;
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
    json.erase("moe_intermediate_size");
    json.erase("num_experts");
    json.erase("norm_topk_prob");
    json["num_local_experts"] = experts;
  }
  return json;
}

}  // namespace

std::string megatron_model(LaunchArguments& arguments) {
  const MegatronShape shape = shape_of(arguments);
  const bool experts = arguments.has("--num-experts") && arguments.text("--num-experts", "") != "None";
  if (!experts && arguments.on("--multi-latent-attention"))
    arguments.refuse_with("--multi-latent-attention", "no experts", "--num-experts");
  Json json = experts ? mixture(arguments, shape) : dense(arguments, shape);
  set_megatron_vocabulary(arguments, json);
  return json.dump();
}

}  // namespace plumbline
