// The norm after the embedding, if a model has one.
#pragma once

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Norm of the embedded tokens on a first stage; does nothing if the model has none.
class EmbeddingNorm {
 public:
  EmbeddingNorm(const RankResources& rank, const StageEntry& stage);

  bool on() const { return on_; }
  NormVectors values() const { return {weight_, bias_}; }
  NormVectors gradients() const { return {weight_gradient_, bias_gradient_}; }
  /// Without a backward: the norm of x, the embedded tokens with their positions, takes its place.
  void forward(Tensor& x) const;

 private:
  const RankResources& rank_;
  bool on_;
  Matrix weight_, bias_;
  Matrix weight_gradient_, bias_gradient_;
};

}  // namespace plumbline::training
