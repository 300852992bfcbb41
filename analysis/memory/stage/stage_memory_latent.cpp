// Queries, keys and values of latent attention (bench/training/latent.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

void StageReplay::latent_forward() {
  take(kept_, bytes_.compressed);
  take(kept_, bytes_.compressed + bytes_.compressed_statistics);  // after the norms
  latent_up_projection();
}

/// From there to queries, keys and values.
void StageReplay::latent_up_projection() {
  take(kWorkspace, bytes_.compressed_gathered);
  take(kept_, bytes_.qkv);
  take(kWorkspace, bytes_.own_part_of_keys);
  give(kWorkspace, bytes_.own_part_of_keys);
  give(kWorkspace, bytes_.compressed_gathered);
}

/// The gradients of the three products' weights. `split_keys`: the gradient of the keys is taken apart again.
void StageReplay::latent_weights(bool split_keys) {
  take(kWorkspace, bytes_.compressed_gathered);
  if (split_keys) take(kWorkspace, bytes_.own_part_of_keys);
  if (split_keys) give(kWorkspace, bytes_.own_part_of_keys);
  give(kWorkspace, bytes_.compressed_gathered);
}

/// From the gradients of queries, keys and values to that of the norm's output, which stays with that of what was compressed.
/// `gradients`: kept for the weights' gradients, or of this action alone, which computes them too.
void StageReplay::latent_input_gradient(Category gradients) {
  const bool weights = gradients == kWorkspace;
  take(gradients, bytes_.compressed);
  take(kWorkspace, bytes_.own_part_of_keys);
  take(kWorkspace, bytes_.compressed_partial);
  take(kWorkspace, bytes_.compressed_piece);
  give(kWorkspace, bytes_.compressed_piece);
  give(kWorkspace, bytes_.compressed_partial);
  if (weights) latent_weights(false);
  give(kWorkspace, bytes_.own_part_of_keys);
  if (weights) give(kWorkspace, bytes_.qkv);
  if (weights) give(kActivations, bytes_.compressed);  // after the norms
  give(kActivations, bytes_.compressed + bytes_.compressed_statistics);
  take(kWorkspace, bytes_.stream);  // dn
}

void StageReplay::latent_compression_weight() {
  gather_operand();
  take(kWorkspace, bytes_.compressed_gathered);
  give(kWorkspace, bytes_.compressed_gathered);
  release_operand();
}

}  // namespace plumbline
