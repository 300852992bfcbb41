// The loss of a last stage or of a shard of the vocabulary, on the logits or on an fp32 copy of them.
#include "analysis/memory/stage_memory.hpp"

namespace plumbline {

/// Leaves the gradient in place of what it worked on.
void StageReplay::cross_entropy() {
  take(kLogits, bytes_.fp32_logits);
  take(kWorkspace, bytes_.loss);
  give(kWorkspace, bytes_.loss);
  if (s_.loss_in_fp32) give(kLogits, bytes_.logits);
}

/// The fp32 copy takes the place of the logits; nothing without one.
void StageReplay::widen_logits() {
  if (!s_.loss_in_fp32) return;
  take(kLogits, bytes_.fp32_logits);
  give(kLogits, bytes_.logits);
}

/// The gradient takes the place of the fp32 one, for the products; nothing without one.
void StageReplay::round_logits_gradient() {
  if (!s_.loss_in_fp32) return;
  take(kLogits, bytes_.logits);
  give(kLogits, bytes_.fp32_logits);
}

}  // namespace plumbline
