// Queries, keys and values of latent attention (bench/training/latent.md).
#include <iterator>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

void StageReplay::latent_forward() {
  take(kept_, bytes_.latent.compressed);
  use_weight(bytes_.attention.qkv_product);
  take(kept_, bytes_.latent.compressed + bytes_.latent.statistics);  // after the norms
  latent_up_projection();
}

/// From there to queries, keys and values.
void StageReplay::latent_up_projection() {
  take(kWorkspace, bytes_.latent.gathered);
  take(kept_, bytes_.attention.qkv);
  if (s_.numerics.fp8) take(kWorkspace, bytes_.latent.query_input);
  if (s_.attention.query_rank == 0) gather_operand();
  use_weight(bytes_.latent.queries_product);
  if (s_.attention.query_rank == 0) release_operand();
  if (s_.numerics.fp8) give(kWorkspace, bytes_.latent.query_input);
  take(kWorkspace, bytes_.latent.own_part_of_keys);
  if (s_.numerics.fp8) take(kWorkspace, bytes_.latent.keys_values_input);
  use_weight(bytes_.latent.keys_values_product);
  if (s_.numerics.fp8) give(kWorkspace, bytes_.latent.keys_values_input);
  give(kWorkspace, bytes_.latent.own_part_of_keys);
  give(kWorkspace, bytes_.latent.gathered);
}

/// The gradients of the products' weights, in FP8 from the quantized operands.
void StageReplay::up_projection_weights() {
  if (s_.attention.query_rank == 0) {
    gather_operand();
    weight_gradient(bytes_.latent.queries_product);
    release_operand();
  }
  const std::int64_t inputs[] = {bytes_.latent.query_input, bytes_.latent.keys_values_input};
  const ProductBytes* products[] = {&bytes_.latent.queries_product, &bytes_.latent.keys_values_product};
  for (std::size_t i = s_.attention.query_rank == 0 ? 1 : 0; s_.numerics.fp8 && i < std::size(inputs); ++i) {
    take(kWorkspace, inputs[i]);
    weight_gradient(*products[i]);
    give(kWorkspace, inputs[i]);
  }
}

/// The same with the gradients that they are made from, which are taken apart, and quantized, again.
void StageReplay::latent_weights() {
  const std::int64_t quantized =
      s_.numerics.fp8 ? bytes_.latent.quantized_queries + bytes_.latent.quantized_keys_values : 0;
  take(kWorkspace, bytes_.latent.gathered);
  take(kWorkspace, bytes_.latent.own_part_of_keys);
  take(kWorkspace, quantized);
  up_projection_weights();
  give(kWorkspace, quantized);
  give(kWorkspace, bytes_.latent.own_part_of_keys);
  give(kWorkspace, bytes_.latent.gathered);
}

/// Turns the gradients of queries, keys and values into that of the norm's output; the gradient of the
/// compressed form stays. `gradients`: category kept for the weight gradients, or kWorkspace if this action
/// computes them too.
void StageReplay::latent_input_gradient(Category gradients) {
  const bool weights = gradients == kWorkspace;
  const std::int64_t queries = s_.numerics.fp8 ? bytes_.latent.quantized_queries : 0;
  const std::int64_t keys_values = s_.numerics.fp8 ? bytes_.latent.quantized_keys_values : 0;
  take(gradients, bytes_.latent.compressed);
  take(kWorkspace, bytes_.latent.own_part_of_keys);
  take(kWorkspace, queries);
  if (s_.attention.query_rank == 0) {
    take(kWorkspace, bytes_.stream.tensor);  // dn
    take(kWorkspace, bytes_.stream.partial);
    input_gradient(bytes_.latent.queries_product);
    take(kWorkspace, bytes_.stream.piece);
    give(kWorkspace, bytes_.stream.piece);
    give(kWorkspace, bytes_.stream.partial);
  }
  take(kWorkspace, bytes_.latent.partial);
  if (s_.attention.query_rank > 0) input_gradient(bytes_.latent.queries_product);
  take(kWorkspace, keys_values);
  input_gradient(bytes_.latent.keys_values_product);
  take(kWorkspace, bytes_.latent.piece);
  give(kWorkspace, bytes_.latent.piece);
  give(kWorkspace, bytes_.latent.partial);
  if (weights) {
    take(kWorkspace, bytes_.latent.gathered);
    up_projection_weights();
    give(kWorkspace, bytes_.latent.gathered);
  }
  give(kWorkspace, queries + keys_values);
  give(kWorkspace, bytes_.latent.own_part_of_keys);
  if (weights) give(kWorkspace, bytes_.attention.qkv);
  if (weights) give(kActivations, bytes_.latent.compressed);  // after the norms
  give(kActivations, bytes_.latent.compressed + bytes_.latent.statistics);
  take_compression_gradient();
  if (s_.attention.query_rank > 0) take(kWorkspace, bytes_.stream.tensor);  // dn
  input_gradient(bytes_.attention.qkv_product);
  if (!weights) give_compression_gradient();
}

/// Quantized, where it is.
void StageReplay::take_compression_gradient() {
  if (s_.numerics.fp8) take(kWorkspace, bytes_.latent.quantized_compression);
}
void StageReplay::give_compression_gradient() {
  if (s_.numerics.fp8) give(kWorkspace, bytes_.latent.quantized_compression);
}

/// From the gradient in the form that products read, which is freed.
void StageReplay::latent_compression_weight() {
  gather_operand();
  take(kWorkspace, bytes_.latent.compression_gathered);
  weight_gradient(bytes_.attention.qkv_product);
  give(kWorkspace, bytes_.latent.compression_gathered);
  release_operand();
  give_compression_gradient();
}

}  // namespace plumbline
