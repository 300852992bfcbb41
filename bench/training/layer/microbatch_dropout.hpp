// Dropout of one micro-batch on one rank: the random numbers that decide, and the masks between the passes.
// bench/training/dropout.md says what is drawn, allocated and freed when.
#pragma once

#include <cstdint>

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// The places in a model where elements are dropped; layers count from 0 over the whole model.
namespace dropout_site {
constexpr std::int64_t kEmbedding = 0;
constexpr std::int64_t after_attention(std::int64_t layer) {
  return 3 * layer + 1;
}
constexpr std::int64_t after_mlp(std::int64_t layer) {
  return 3 * layer + 2;
}
constexpr std::int64_t attention_probabilities(std::int64_t layer) {
  return 3 * layer + 3;
}
}  // namespace dropout_site

/// In one step, numbered from 1. Without dropout in the configuration it computes a model without dropout,
/// and holds nothing.
class MicrobatchDropout {
 public:
  MicrobatchDropout(const TrainingContext& context, std::int64_t step, std::uint32_t microbatch);

  /// Elements of the residual stream are dropped.
  bool drops_hidden() const { return context_.config.numerics.hidden_dropout > 0; }
  /// Attention of the layer: its window, and the dropout of its probabilities.
  AttentionShape attention(std::int64_t layer) const;
  /// The same for one of `chunks` of one of the micro-batch's sequences, against all keys in front of it.
  AttentionShape attention(std::int64_t layer, std::int64_t sequence, const SequenceChunks& chunks,
                           std::int64_t chunk) const;

  /// The mask (R, h) of a place in the stream; empty without dropout.
  Tensor mask(std::int64_t site) const;
  /// x, in place. Returns the mask.
  Tensor drop(std::int64_t site, const Matrix& x) const;
  /// y = factor·residual + dropped(y + bias). Returns the mask.
  Tensor add(std::int64_t site, const Matrix& y, const Matrix& bias, const Matrix& residual,
             double factor) const;

 private:
  Dropout at(std::int64_t site, double probability, std::int64_t first_row) const;

  const TrainingContext& context_;
  std::int64_t step_;
  Coordinates rank_;
  SequenceChunks chunks_;
  std::int64_t first_row_;  // of the micro-batch, in the global batch
};

}  // namespace plumbline::training
