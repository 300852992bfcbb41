// Rotary embeddings of a layer's queries and keys.
#pragma once

#include "bench/training/layer/attention_tensors.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/parameters/conversations.hpp"

namespace plumbline::training {

/// Rotates the heads of x, of `head_dim` elements, in place, or back: their gradient.
inline void rotate_heads(const TrainingContext& context, const SharedBuffers& shared, const Matrix& x,
                         std::int64_t head_dim, bool back) {
  const auto rotate_rows = [&](const Matrix& rows, const Matrix& cos, const Matrix& sin) {
    if (context.model().rotary.pairs == RotaryPairs::halves) {
      context.operators.rope(rows, cos, sin, head_dim, back);
    } else {
      context.operators.rope_neighbours(rows, cos, sin, head_dim, back);
    }
  };
  const Matrix& cos = shared.rope_cos;
  const Matrix& sin = shared.rope_sin;
  if (shared.conversations == nullptr) return rotate_rows(x, cos, sin);
  each_chunk_of(*shared.conversations, context.chunks(),
                [&](std::int64_t row, std::int64_t count, std::int64_t position) {
                  rotate_rows(x.row_range(row, count), cos.row_range(position, count),
                              sin.row_range(position, count));
                });
}

/// Rotates q and k in place, or back: their gradients. Nothing if the layer has no rotary embeddings.
inline void rotate(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                   const QueryKeyValue& of, bool back) {
  if (!context.model().rotates(layer.index)) return;
  for (const Matrix& x : {of.q, of.k})
    rotate_heads(context, shared, x, context.shape.attention.head_dim, back);
}

}  // namespace plumbline::training
