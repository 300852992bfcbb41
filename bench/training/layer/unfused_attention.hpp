// Tensors of unfused attention (bench/training/README.md). With fused attention there are none.
#pragma once

#include "bench/training/layer/attention_tensors.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// The layer's attention keeps its probabilities.
inline bool is_unfused(const TrainingContext& context) {
  return context.config.numerics.attention_backend == AttentionBackend::unfused;
}
/// A number for every pair of tokens and query head; empty with fused attention.
Tensor make_scores(const TrainingContext& context, Category category, const char* holder);
/// The tensors that are kept for the backward, and memory for scores.
inline UnfusedAttention unfused_attention(const AttentionTensors& saved, const Tensor& scores) {
  return {.scores = scores,
          .probabilities = saved.probabilities,
          .mask = saved.probability_mask,
          .dropped = saved.dropped_probabilities,
          .repeated = saved.repeated};
}

}  // namespace plumbline::training
