// Selective recomputation: what a forward frees of a layer, and what the backward of each block allocates again
// (bench/training/recompute.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

void StageReplay::drop_attention_block() {
  const RecomputeModules& modules = s_.recomputed;
  if (modules.core_attn) give(kept_, bytes_.attention + bytes_.lse);
  if (modules.mla_up_proj) give(kept_, bytes_.qkv);
  if (modules.layernorm && s_.layer_norms() > 1) give(kept_, bytes_.norm_output + bytes_.statistics);
}

/// The second norm's output, or that of the only one.
void StageReplay::drop_feed_forward() {
  const RecomputeModules& modules = s_.recomputed;
  if (modules.layernorm) give(kept_, bytes_.norm_output + bytes_.statistics);
  if (!experts_) {
    if (modules.mlp) give(kept_, bytes_.fc1 + bytes_.activation_output);
    return;
  }
  const std::int64_t shared = bytes_.shared_weights + bytes_.shared_fc1 + bytes_.shared_activation;
  if (modules.moe) {
    return give(kept_, bytes_.routing + bytes_.orders + bytes_.row_weights + bytes_.own_rows + bytes_.fc1 +
                           bytes_.activation + shared);
  }
  if (modules.moe_act) give(kept_, bytes_.activation);
  if (modules.shared_experts) give(kept_, shared);
}

void StageReplay::feed_forward_again() {
  const RecomputeModules& modules = s_.recomputed;
  if (modules.layernorm) layer_norm();
  if (!experts_) {
    if (modules.mlp) mlp_forward();
    return;
  }
  if (modules.moe) return mixture_forward(true);
  if (modules.shared_experts) {
    gather_operand();
    take(kActivations, bytes_.shared_weights + bytes_.shared_fc1);
    release_operand();
    take(kActivations, bytes_.shared_activation);
  }
  if (modules.moe_act) take(kActivations, bytes_.activation);
}

void StageReplay::attention_block_again() {
  const RecomputeModules& modules = s_.recomputed;
  if (modules.layernorm && s_.layer_norms() > 1) layer_norm();
  if (modules.mla_up_proj) latent_up_projection();
  if (!modules.core_attn) return;
  take(kActivations, bytes_.attention);
  take(kActivations, bytes_.lse);
  attention_forward();
}

}  // namespace plumbline
