// The norm after the embedding, if a model has one.
#pragma once

#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

/// State that the forward of one micro-batch leaves for its backward.
struct EmbeddedTokens {
  Tensor embedded, stats;
};

/// Norm of the embedded tokens on a first stage; does nothing if the model has none.
class EmbeddingNorm {
 public:
  EmbeddingNorm(const RankResources& rank, const StageEntry& stage);

  /// x, the embedded tokens with their positions, goes into `saved`, and its norm takes its place.
  void forward(Tensor& x, EmbeddedTokens& saved) const;
  /// The gradient of the norm's output becomes that of its input; frees all of `saved`.
  void backward(Tensor& gradient, EmbeddedTokens& saved) const;

 private:
  const RankResources& rank_;
  bool on_;
  Matrix weight_, bias_;
  Matrix weight_gradient_, bias_gradient_;
};

}  // namespace plumbline::training
