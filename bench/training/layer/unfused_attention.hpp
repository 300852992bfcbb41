// Tensors of unfused attention (bench/training/README.md). With fused attention there are none.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// The layer's attention keeps its probabilities.
inline bool is_unfused(const TrainingContext& context) {
  return context.config.numerics.attention_backend == AttentionBackend::unfused;
}
/// A number for every pair of tokens and query head; empty with fused attention.
Tensor make_scores(const TrainingContext& context, Category category, const char* holder);
/// Allocates the tensors that are kept for the backward, if attention is unfused.
void make_unfused_attention(const TrainingContext& context, const AttentionShape& shape,
                            LayerActivations& saved);
/// These, and memory for scores.
inline UnfusedAttention unfused_attention(const LayerActivations& saved, const Tensor& scores) {
  return {.scores = scores,
          .probabilities = saved.probabilities,
          .mask = saved.probability_mask,
          .dropped = saved.dropped_probabilities,
          .repeated = saved.repeated};
}

}  // namespace plumbline::training
