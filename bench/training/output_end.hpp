// The output end of the model: final norm, output layer, loss.
#pragma once

#include <cstdint>

#include "bench/training/rank_resources.hpp"

namespace plumbline::training {

/// What the forward of one micro-batch leaves for its backward. The loss turns the logits into their
/// gradient.
struct OutputActivations {
  Tensor input, norm, stats, logits;
};

/// Of a last stage. Logits and loss are cut over the vocabulary (Megatron-LM, arXiv:1909.08053 §3).
class OutputEnd {
 public:
  OutputEnd(RankResources& rank, const StageEntry& stage);

  /// The unit of the output layer: its own, or the embedding's.
  int unit() const { return unit_; }
  /// Reads saved.input and fills the rest; returns the loss summed over the micro-batch's tokens.
  double forward(std::uint32_t microbatch, OutputActivations& saved) const;
  /// Input and weight gradients; frees all of `saved`. Returns the gradient of the last layer's output.
  Tensor backward(OutputActivations& saved) const;
  /// The input gradient alone: keeps the norm's output and the logits for backward_weight.
  Tensor backward_input(OutputActivations& saved) const;
  void backward_weight(OutputActivations& saved) const;

 private:
  Tensor norm_gradient(const OutputActivations& saved) const;
  void weight_gradient(OutputActivations& saved) const;
  Tensor stream_gradient(OutputActivations& saved, const Matrix& norm_gradient, Category category) const;

  RankResources& rank_;
  const Parameter& weight_;
  int unit_;
  Matrix norm_weight_, norm_bias_;
  Matrix norm_weight_gradient_, norm_bias_gradient_;
  std::int64_t first_token_;
  std::int64_t valid_tokens_;  // columns of the logits that are no padding
};

}  // namespace plumbline::training
