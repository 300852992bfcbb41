// Rotary embeddings of a layer's queries and keys.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Rotates q and k in place, or back: their gradients. Nothing where the model has no rotary embeddings.
inline void rotate(const TrainingContext& context, const SharedBuffers& shared, const QueryKeyValue& of,
                   bool back) {
  if (!shared.rope_cos) return;
  const std::int64_t d = context.shape.attention.head_dim;
  for (const Matrix& x : {of.q, of.k}) {
    if (context.model().rotary_pairs == RotaryPairs::halves) {
      context.operators.rope(x, shared.rope_cos, shared.rope_sin, d, back);
    } else {
      context.operators.rope_neighbours(x, shared.rope_cos, shared.rope_sin, d, back);
    }
  }
}

}  // namespace plumbline::training
