#include "bench/training/layer/recomputation.hpp"

#include "bench/training/feed_forward/mixture.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"
#include "bench/training/layer/latent_attention.hpp"
#include "bench/training/layer/layer_attention.hpp"

namespace plumbline::training {
namespace {

bool one_norm(const TrainingContext& context) {
  return context.model().block == Block::parallel_one_norm;
}

void drop_first_norm(LayerActivations& saved) {
  saved.norm1.reset();
  saved.norm1_stats.reset();
}

}  // namespace

void drop_attention_block(const TrainingContext& context, LayerActivations& saved) {
  const RecomputeModules modules = context.config.recompute.selected();
  if (modules.core_attn) {
    saved.attention.reset();
    saved.drop_attention_state();
  }
  if (modules.mla_up_proj) saved.drop_attention_input();
  if (modules.layernorm && !one_norm(context)) drop_first_norm(saved);
}

void drop_feed_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved) {
  const RecomputeModules modules = context.config.recompute.selected();
  if (modules.layernorm) {
    if (one_norm(context)) drop_first_norm(saved);
    saved.norm2.reset();
    saved.norm2_stats.reset();
  }
  if (modules.mlp && !layer.mixture()) {
    saved.fc1.reset();
    saved.activation.reset();
  }
  if (modules.moe) saved.mixture.forget();
  if (modules.moe_act) saved.mixture.activation.reset();
  if (modules.shared_experts) saved.mixture.shared = SharedExpert();
}

void feed_forward_again(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                        LayerActivations& saved) {
  const RecomputeModules modules = context.config.recompute.selected();
  if (modules.layernorm)
    (one_norm(context) ? first_norm_forward : second_norm_forward)(context, layer, saved);
  if (!layer.mixture()) {
    if (modules.mlp) mlp_forward(context, layer, weights, saved);
    return;
  }
  const Matrix& norm = saved.norm2.values();
  MixtureState& mixture = saved.mixture;
  if (modules.moe) return mixture_forward(context, weights.mixture, layer.expert_bias, norm, mixture);
  if (modules.shared_experts) {
    shared_expert_forward(context, weights.mixture, context.gather_rows(norm), mixture.shared);
    shared_expert_activation(context, layer.fp8.mixture, mixture.shared);
  }
  if (modules.moe_act) experts_activation(context, layer.fp8.mixture, mixture);
}

void attention_block_again(const TrainingContext& context, const SharedBuffers& shared,
                           const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                           LayerActivations& saved) {
  const RecomputeModules modules = context.config.recompute.selected();
  if (modules.layernorm && !one_norm(context)) first_norm_forward(context, layer, saved);
  if (modules.mla_up_proj) {
    latent_up_projection(context, shared, layer, weights.latent, saved, true);
    if (exchanges_heads(context.config.parallel)) exchange_heads(context, dropout, layer, saved);
  }
  if (modules.core_attn) layer_attention(context, shared, dropout, layer, saved);
}

}  // namespace plumbline::training
