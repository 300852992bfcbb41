// Selective recomputation: memory that a forward frees in a layer, and that the backward of each block
// allocates again (bench/training/recompute.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

std::int64_t StageReplay::dropped_attention_block() const {
  const RecomputeModules& modules = s_.recomputation.modules;
  std::int64_t bytes = 0;
  if (modules.core_attn) bytes += bytes_.attention.output + bytes_.attention.lse;
  if (modules.mla_up_proj) bytes += bytes_.attention.qkv;
  if (modules.layernorm && s_.block.norms() > 1)
    bytes += bytes_.stream.norm_output + bytes_.stream.input_statistics;
  return bytes;
}

/// The second norm's output, or that of the only one.
std::int64_t StageReplay::dropped_feed_forward() const {
  const RecomputeModules& modules = s_.recomputation.modules;
  std::int64_t bytes = 0;
  if (modules.layernorm)
    bytes += (s_.block.norms() > 1 ? second_norm_output() : bytes_.stream.norm_output) +
             bytes_.stream.input_statistics;
  if (!experts_) return bytes + (modules.mlp ? bytes_.mlp.fc1 + bytes_.mlp.activation_output : 0);
  const std::int64_t shared = bytes_.shared.weights + bytes_.shared.fc1 + bytes_.shared.activation_output;
  if (modules.moe) {
    return bytes + bytes_.moe.routing + bytes_.moe.orders + bytes_.moe.row_weights + bytes_.moe.kept_rows +
           bytes_.mlp.fc1 + bytes_.mlp.activation_output + shared;
  }
  if (modules.moe_act) bytes += bytes_.mlp.activation_output;
  if (modules.shared_experts) bytes += shared;
  return bytes;
}

void StageReplay::drop_attention_block() {
  give(kept_, dropped_attention_block());
}

void StageReplay::drop_feed_forward() {
  give(kept_, dropped_feed_forward());
}

void StageReplay::feed_forward_again() {
  const RecomputeModules& modules = s_.recomputation.modules;
  if (modules.layernorm && s_.block.norms() > 1) second_norm();
  if (modules.layernorm && s_.block.norms() == 1) layer_norm();
  if (!experts_) {
    if (modules.mlp) mlp_forward();
    return;
  }
  if (modules.moe) return mixture_forward(true);
  if (modules.shared_experts) {
    gather_stream();
    shared_fc1();
    release_gathered();
    shared_activation();
  }
  if (modules.moe_act) activation_of_experts();
}

void StageReplay::attention_block_again() {
  const RecomputeModules& modules = s_.recomputation.modules;
  if (modules.layernorm && s_.block.norms() > 1) layer_norm();
  if (modules.mla_up_proj) {
    latent_up_projection();
    exchange_heads();
  }
  if (!modules.core_attn) return;
  take(kActivations, bytes_.attention.output);
  take(kActivations, bytes_.attention.lse);
  attention_forward();
}

/// The forward of the group's layers again; the last one's values stay in use for its backward.
void StageReplay::recompute(std::int64_t begin, std::int64_t end) {
  each(end - begin, cuts_from(begin), [&](std::int64_t i) {
    at_layer(begin + i);
    begin_layer_use();
    layer_forward(true);
    if (begin + i == end - 1 && s_.block.norms_results) {
      layer_output();  // the norm's backward needs the MLP's result, y is dropped
      return give(kept_, bytes_.stream.tensor);
    }
    if (begin + i == end - 1) {
      if (s_.block.parallel()) give(kept_, bytes_.stream.tensor);  // x2
      take(kept_, bytes_.stream.mask);                             // of the MLP, whose result is not wanted
      return;
    }
    layer_output();
    end_layer_use();
  });
}

}  // namespace plumbline
