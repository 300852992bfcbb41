#include "core/launch_files/megatron/model/megatron_model_flags.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Families that megatron_model() tells apart by these flags.
constexpr std::string_view kExported[] = {"llama",       "qwen2",       "qwen3",    "gpt2",
                                          "gpt_bigcode", "mixtral",     "nemotron", "qwen2_moe",
                                          "qwen3_moe",   "deepseek_v3", "glm4_moe"};

void add_layers(const ModelConfig& model, std::vector<std::string>& flags) {
  const auto value = [&](std::string_view name, auto number) {
    flags.push_back(fmt::format("{} {}", name, number));
  };
  const auto flag = [&](bool given, const char* name) {
    if (given) flags.emplace_back(name);
  };
  value("--num-layers", model.layers);
  value("--hidden-size", model.hidden);
  value("--num-attention-heads", model.heads);
  if (model.kv_heads != model.heads) {
    flags.emplace_back("--group-query-attention");
    value("--num-query-groups", model.kv_heads);
  }
  if (!model.latent) value("--kv-channels", model.head_dim);
  value("--ffn-hidden-size",
        model.mixture && model.mixture.first_dense > 0 ? model.mixture.dense_ffn : model.ffn);
  value("--max-position-embeddings", model.position.max);
  value("--vocab-size", model.vocab);
  flags.emplace_back("--tokenizer-type NullTokenizer");
  value("--init-method-std", model.init_std);
  value("--normalization", model.norms.kind == Norm::rms ? "RMSNorm" : "LayerNorm");
  value("--norm-epsilon", model.norms.epsilon);
  if (model.position.kind == Positions::rotary) {
    value("--position-embedding-type", "rope");
    value("--rotary-base", model.rotary.theta);
    if (!model.latent)
      value("--rotary-percent", static_cast<double>(model.rotated()) / static_cast<double>(model.head_dim));
    if (model.rotary.scaling.factor != 1) {
      flags.emplace_back("--use-rope-scaling");
      value("--rope-scaling-factor", model.rotary.scaling.factor);
    }
  } else {
    value("--position-embedding-type", "learned_absolute");
  }
  flag(model.activation == Activation::swiglu, "--swiglu");
  flag(model.activation == Activation::squared_relu, "--squared-relu");
  flag(!model.biases.linear, "--disable-bias-linear");
  flag(model.biases.qkv && !model.biases.linear, "--add-qkv-bias");
  flag(model.norms.qk, "--qk-layernorm");
  flag(!model.embedding.tied, "--untie-embeddings-and-output-weights");
}

void add_experts_of(const ModelConfig& model, std::vector<std::string>& flags) {
  const Mixture& mixture = model.mixture;
  const auto value = [&](std::string_view name, auto number) {
    flags.push_back(fmt::format("{} {}", name, number));
  };
  value("--num-experts", mixture.experts);
  value("--moe-router-topk", mixture.top_k);
  value("--moe-ffn-hidden-size", model.ffn);
  if (!mixture.normalized) flags.emplace_back("--moe-router-pre-softmax");
  if (mixture.shared > 0) value("--moe-shared-expert-intermediate-size", mixture.shared);
  if (mixture.shared > 0 && mixture.shared_gated) flags.emplace_back("--moe-shared-expert-gate");
  if (mixture.first_dense > 0)
    flags.push_back(fmt::format("--moe-layer-freq \"([0]*{}+[1]*{})\"", mixture.first_dense,
                                model.layers - mixture.first_dense));
  if (mixture.scores == RouterScores::sigmoid) {
    flags.emplace_back("--moe-router-score-function sigmoid --moe-router-enable-expert-bias");
    value("--moe-router-topk-scaling-factor", mixture.routed_scale);
    value("--moe-router-num-groups", mixture.groups);
    value("--moe-router-group-topk", mixture.chosen_groups);
  }
}

void add_latent(const LatentAttention& latent, std::vector<std::string>& flags) {
  const auto value = [&](std::string_view name, auto number) {
    flags.push_back(fmt::format("{} {}", name, number));
  };
  flags.emplace_back("--multi-latent-attention");
  if (latent.query_rank > 0) value("--q-lora-rank", latent.query_rank);
  value("--kv-lora-rank", latent.kv_rank);
  value("--qk-head-dim", latent.nope_dim);
  value("--qk-pos-emb-head-dim", latent.rope_dim);
  value("--v-head-dim", latent.value_dim);
}

}  // namespace

std::vector<std::string> megatron_model_flags(const ModelConfig& model, const std::string& of) {
  const bool known =
      std::find(std::begin(kExported), std::end(kExported), model.architecture) != std::end(kExported);
  const RopeScaling& scaling = model.rotary.scaling;
  const bool plain_scaling =
      scaling.predicted_type.empty() &&
      (scaling.factor == 1 || (scaling.low_freq_factor == 1 && scaling.high_freq_factor == 4 &&
                               scaling.original_max_positions == 8192));
  if (!known || model.window.size > 0 || !plain_scaling) {
    throw InputError(
        fmt::format("model: found layers of {}{}, which {} do not say; expected those of a family such "
                    "as gpt2, llama or qwen3",
                    model.architecture,
                    model.window.size > 0 ? " with sliding windows"
                    : plain_scaling       ? ""
                                          : " with its rope_scaling",
                    of));
  }
  std::vector<std::string> flags;
  add_layers(model, flags);
  if (model.latent) add_latent(model.latent, flags);
  if (model.mixture) add_experts_of(model, flags);
  return flags;
}

}  // namespace plumbline
