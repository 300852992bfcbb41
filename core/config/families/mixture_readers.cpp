// Fields of an MoE model's config.json beyond sizes: reading and writing. Sources: as in families.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/config/families/families.hpp"
#include "core/config/families/family_readers.hpp"
#include "core/config/families/predicted_readers.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostExperts = 1 << 10;
constexpr std::int64_t kMostWidth = 1 << 22;

}  // namespace

/// `experts_key`: "a|b" as of FamilyKeys.
void read_experts(const JsonKeys& keys, const char* names, ModelConfig& config) {
  const std::string experts_key = key_of(keys, names);
  const char* const chosen_key = "num_experts_per_tok";
  config.mixture.experts = keys.integer(experts_key, kMostExperts);
  config.mixture.top_k = keys.integer(chosen_key, kMostExperts);
  if (config.mixture.top_k > config.mixture.experts) {
    keys.fail(chosen_key, fmt::format("found {}, expected at most the {} of {}", config.mixture.top_k,
                                      config.mixture.experts, experts_key));
  }
  // If true, the file's own coefficient would count; plumbline's is a key of the run.
  keys.must_be("output_router_logits", false, false);
}

void read_sparse_layers(const JsonKeys& keys, ModelConfig& config) {
  const std::int64_t step = keys.integer_or("decoder_sparse_step", 1 << 20, 1);
  std::vector<double> dense;
  if (keys.find("mlp_only_layers") != nullptr) dense = keys.numbers("mlp_only_layers", 0, 10'000, 10'000);
  if (step == 1 && dense.empty()) return;
  std::vector<bool> experts;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) experts.push_back((layer + 1) % step == 0);
  for (const double layer : dense) {
    if (layer != std::floor(layer)) keys.fail("mlp_only_layers", "found a fraction, expected whole numbers");
    if (layer < static_cast<double>(config.layers)) experts[static_cast<std::size_t>(layer)] = false;
  }
  put_experts_in_layers(std::move(experts), keys.integer("intermediate_size", kMostWidth), config);
}

void put_experts_in_layers(std::vector<bool> experts, std::int64_t dense_ffn, ModelConfig& config) {
  const std::int64_t with = std::count(experts.begin(), experts.end(), true);
  if (with == 0) {  // as transformers builds it
    config.mixture = {};
    config.ffn = dense_ffn;
    config.predicted.add("experts in no layer");
    return;
  }
  if (with == config.layers) return;
  config.mixture.dense_ffn = dense_ffn;
  if (std::is_sorted(experts.begin(), experts.end())) {
    config.mixture.first_dense = config.layers - with;
    return;
  }
  config.predicted.has_experts = std::move(experts);
  config.predicted.add("layers without experts between layers with experts");
}

void read_mixtral(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_experts(keys, "num_local_experts|num_experts", config);
  if (keys.number_or("router_jitter_noise", 0, 1, 0) != 0)
    keys.fail("router_jitter_noise", "found noise on what the router reads, supported is 0 only");
  read_windows(keys, with_nulls, config);
}
void write_mixtral(const ModelConfig& config, Json& out) {
  out["num_local_experts"] = config.mixture.experts;
  out["num_experts_per_tok"] = config.mixture.top_k;
  write_windows(config, out);
}

/// Common part of both Qwen MoE families.
void read_qwen_moe(const JsonKeys& keys, ModelConfig& config) {
  // transformers writes the second name from version 5 on.
  read_experts(keys, "num_experts|num_local_experts", config);
  config.mixture.normalized = keys.boolean("norm_topk_prob");
  read_sparse_layers(keys, config);
  if (config.mixture_layers() == config.layers) {
    keys.integer_or("intermediate_size", kMostWidth,
                    0);  // of layers without experts, of which there are none
  }
}
void write_qwen_moe(const ModelConfig& config, Json& out) {
  out["num_experts"] = config.mixture.experts;
  out["num_experts_per_tok"] = config.mixture.top_k;
  out["norm_topk_prob"] = config.mixture.normalized;
  if (config.mixture.first_dense > 0) {
    std::vector<std::int64_t> dense(static_cast<std::size_t>(config.mixture.first_dense));
    std::iota(dense.begin(), dense.end(), 0);
    out["mlp_only_layers"] = std::move(dense);
    out["intermediate_size"] = config.mixture.dense_ffn;
  }
  write_windows(config, out);
}

void read_qwen3_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_qwen_moe(keys, config);
  read_qwen3(keys, with_nulls, config);
}
void write_qwen3_moe(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
  write_qwen_moe(config, out);
}

void read_qwen2_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_qwen_moe(keys, config);
  const std::int64_t shared = keys.integer("shared_expert_intermediate_size", kMostWidth);
  if (config.mixture) config.mixture.shared = shared;
  config.biases.qkv = keys.boolean("qkv_bias");
  read_windows(keys, with_nulls, config);
}
void write_qwen2_moe(const ModelConfig& config, Json& out) {
  write_qwen_moe(config, out);
  out["shared_expert_intermediate_size"] = config.mixture.shared;
  out["qkv_bias"] = config.biases.qkv;
}

namespace {

constexpr std::int64_t kMostHeadElements = 1 << 12;
constexpr std::size_t kMostLayerKinds = 10'000;

}  // namespace

void read_latent_attention(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  LatentAttention& latent = config.latent;
  if (with_nulls.find("q_lora_rank") == nullptr)
    keys.fail("q_lora_rank", "missing; expected a whole number, or null for queries without compression");
  latent.query_rank = keys.integer_or("q_lora_rank", kMostWidth, 0);
  latent.kv_rank = keys.integer("kv_lora_rank", kMostWidth);
  latent.nope_dim = keys.integer("qk_nope_head_dim", kMostHeadElements);
  latent.rope_dim = keys.integer("qk_rope_head_dim", kMostHeadElements);
  // MiniCPM3's files leave it out.
  const std::int64_t usual = config.architecture == "minicpm3" ? config.hidden / config.heads : 0;
  latent.value_dim = usual > 0 ? keys.integer_or("v_head_dim", kMostHeadElements, usual)
                               : keys.integer("v_head_dim", kMostHeadElements);
  if (latent.rope_dim % 2 != 0) {
    keys.fail(
        "qk_rope_head_dim",
        fmt::format("found {}, expected an even number: rotary embeddings turn pairs", latent.rope_dim));
  }
  // transformers keeps the rotated elements under this name.
  if (const std::int64_t found = keys.integer_or("head_dim", kMostHeadElements, latent.rope_dim);
      found != latent.rope_dim) {
    keys.fail("head_dim", fmt::format("found {}, expected the {} of qk_rope_head_dim; leave it out", found,
                                      latent.rope_dim));
  }
  config.head_dim = latent.nope_dim + latent.rope_dim;
  config.rotary.dim = latent.rope_dim;
  if (config.kv_heads != config.heads) {
    keys.fail("num_key_value_heads",
              fmt::format("found {}, expected the {} of num_attention_heads: every head "
                          "has keys of its own",
                          config.kv_heads, config.heads));
  }
  keys.must_be("attention_bias", false, false);
  if (!keys.boolean_or("rope_interleave", true)) config.rotary.pairs = RotaryPairs::halves;
}

void read_groups(const JsonKeys& keys, Mixture& mixture) {
  mixture.groups = keys.integer("n_group", kMostExperts);
  mixture.chosen_groups = keys.integer("topk_group", kMostExperts);
  const std::int64_t size = mixture.experts / mixture.groups;
  if (mixture.experts % mixture.groups != 0 || (mixture.groups > 1 && size < 2)) {
    keys.fail("n_group",
              fmt::format("found {}, expected a divisor of n_routed_experts {} that leaves two or more in a "
                          "group",
                          mixture.groups, mixture.experts));
  }
  if (mixture.chosen_groups > mixture.groups || mixture.chosen_groups * size < mixture.top_k) {
    keys.fail("topk_group",
              fmt::format("found {}, expected at most the {} of n_group, with at least the {} experts of "
                          "num_experts_per_tok",
                          mixture.chosen_groups, mixture.groups, mixture.top_k));
  }
}

/// Layers in front without experts by mlp_layer_types, which transformers 5 writes for glm4_moe_lite.
std::optional<std::int64_t> listed_dense_layers(const JsonKeys& keys, std::int64_t layers) {
  const char* const key = "mlp_layer_types";
  if (keys.find(key) == nullptr) return std::nullopt;
  const std::vector<std::string> kinds = keys.strings(key, kMostLayerKinds);
  const auto first = std::find(kinds.begin(), kinds.end(), "sparse");
  const bool sparse =
      std::all_of(first, kinds.end(), [](const std::string& each) { return each == "sparse"; });
  const bool dense =
      std::all_of(kinds.begin(), first, [](const std::string& each) { return each == "dense"; });
  if (std::ssize(kinds) != layers || !sparse || !dense || first == kinds.end())
    keys.fail(key, fmt::format("found {} entries, expected dense layers, then sparse ones, {} in all",
                               kinds.size(), layers));
  return first - kinds.begin();
}

/// Both families with DeepSeek-V3's experts. Modules for multi-token prediction (num_nextn_predict_layers)
/// are left out, as in transformers; the key mtp_num_layers sets them.
void read_deepseek_experts(const JsonKeys& keys, ModelConfig& config) {
  Mixture& mixture = config.mixture;
  read_experts(keys, "n_routed_experts|num_local_experts", config);
  mixture.normalized = keys.boolean("norm_topk_prob");
  mixture.shared = keys.integer("n_shared_experts", 0, kMostExperts) * config.ffn;
  mixture.shared_gated = false;
  mixture.first_dense = listed_dense_layers(keys, config.layers)
                            .value_or(keys.integer("first_k_dense_replace", 0, config.layers - 1));
  if (mixture.first_dense > 0) mixture.dense_ffn = keys.integer("intermediate_size", kMostWidth);
  mixture.scores = RouterScores::sigmoid;
  mixture.expert_bias = true;
  mixture.routed_scale = keys.number("routed_scaling_factor", 0, 1e6);
  read_groups(keys, mixture);
  // dots1 names its method there.
  const std::string scores = keys.string_or("scoring_func", "sigmoid");
  if (scores != "sigmoid" && !(config.architecture == "dots1" && scores == "noaux_tc"))
    keys.fail("scoring_func", "found another function than sigmoid, supported is sigmoid only");
  if (keys.string_or("topk_method", "noaux_tc") != "noaux_tc")
    keys.fail("topk_method", "found another method than noaux_tc, supported is noaux_tc only");
  if (keys.integer_or("moe_layer_freq", kMostExperts, 1) != 1)
    keys.fail("moe_layer_freq", "found layers without experts in between, supported is 1 only");
}
void write_deepseek_experts(const ModelConfig& config, Json& out) {
  const Mixture& mixture = config.mixture;
  out["n_routed_experts"] = mixture.experts;
  out["num_experts_per_tok"] = mixture.top_k;
  out["norm_topk_prob"] = mixture.normalized;
  out["n_shared_experts"] = mixture.shared / config.ffn;
  out["first_k_dense_replace"] = mixture.first_dense;
  if (mixture.first_dense > 0) out["intermediate_size"] = mixture.dense_ffn;
  out["n_group"] = mixture.groups;
  out["topk_group"] = mixture.chosen_groups;
  out["routed_scaling_factor"] = mixture.routed_scale;
}

void read_deepseek_v3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  read_latent_attention(keys, with_nulls, config);
  read_deepseek_experts(keys, config);
}
void write_deepseek_v3(const ModelConfig& config, Json& out) {
  const LatentAttention& latent = config.latent;
  out["q_lora_rank"] = latent.query_rank > 0 ? Json(latent.query_rank) : Json(nullptr);
  out["kv_lora_rank"] = latent.kv_rank;
  out["qk_nope_head_dim"] = latent.nope_dim;
  out["qk_rope_head_dim"] = latent.rope_dim;
  out["v_head_dim"] = latent.value_dim;
  out["rope_interleave"] = config.rotary.pairs == RotaryPairs::neighbours;
  write_deepseek_experts(config, out);
}

void read_glm4_moe(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  config.biases.qkv = keys.boolean("attention_bias");
  config.norms.qk = keys.boolean("use_qk_norm");
  read_deepseek_experts(keys, config);
}
void write_glm4_moe(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
  out["use_qk_norm"] = config.norms.qk;
  write_deepseek_experts(config, out);
}

}  // namespace plumbline
