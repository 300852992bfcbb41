// Rotary embeddings of a layer's queries and keys.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Rotates the heads of x, of `head_dim` elements, in place, or back: their gradient.
inline void rotate_heads(const TrainingContext& context, const SharedBuffers& shared, const Matrix& x,
                         std::int64_t head_dim, bool back) {
  if (context.model().rotary_pairs == RotaryPairs::halves) {
    context.operators.rope(x, shared.rope_cos, shared.rope_sin, head_dim, back);
  } else {
    context.operators.rope_neighbours(x, shared.rope_cos, shared.rope_sin, head_dim, back);
  }
}

/// Rotates q and k in place, or back: their gradients. Nothing if the layer has no rotary embeddings.
inline void rotate(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                   const QueryKeyValue& of, bool back) {
  if (!context.model().rotates(layer.index)) return;
  for (const Matrix& x : {of.q, of.k})
    rotate_heads(context, shared, x, context.shape.attention.head_dim, back);
}

}  // namespace plumbline::training
