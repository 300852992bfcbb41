// The output end of the model: final norm, output layer, loss.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/ends/vocabulary_columns.hpp"
#include "bench/training/ends/vocabulary_shard.hpp"

namespace plumbline::training {

/// State that the forward of one micro-batch leaves for its backward. The loss turns the logits into their
/// gradient, or, where it works in fp32, replaces them by a gradient in fp32.
struct OutputActivations {
  Tensor input, norm, stats, logits;
};

/// Turns the logits (T, v) into their gradient times `scale` and returns the loss summed over the
/// micro-batch's tokens, whose targets (1, T) are. Collective over the tensor group.
Number cross_entropy(const RankResources& rank, const VocabularyColumns& columns, const Matrix& targets,
                     const Matrix& logits, double scale);

/// Output end of a last stage. Logits and loss are split over the vocabulary (Megatron-LM, arXiv:1909.08053
/// §3). Where the vocabulary is split over all ranks of the model, output layer and loss are its shards'
/// work.
class OutputEnd {
 public:
  OutputEnd(RankResources& rank, const StageEntry& stage, VocabularyShard* shard = nullptr);

  /// The unit of the output layer, its own or the embedding's; none with a split vocabulary.
  const std::vector<int>& units() const { return units_; }
  const VocabularyColumns& columns() const { return columns_; }
  /// Reads saved.input and fills the rest; with a split vocabulary the norm's output goes to the shards.
  void forward(std::uint32_t microbatch, OutputActivations& saved) const;
  /// The two halves of forward: the final norm, and the output layer's product (T, v) of `type`.
  void normalise(OutputActivations& saved) const;
  Tensor project(const Matrix& norm, Category category, DType type) const;
  /// The loss of the logits, summed over the tokens; leaves their gradient times `scale`.
  Number loss(const Matrix& targets, double scale, OutputActivations& saved) const;
  /// Loss of the policy or, with a scalar head, of values: `tokens` as in Operators::policy_loss, value_loss.
  Number policy_loss(const Matrix& targets, const Matrix& tokens, double scale,
                     OutputActivations& saved) const;
  /// Says, right before it is written, where the gradient of the last layer's output goes.
  using Place = std::function<Matrix()>;
  /// Input and weight gradients; frees all of `saved`.
  void backward(std::uint32_t microbatch, OutputActivations& saved, const Place& gradient) const;
  /// The input gradient alone: keeps the norm's output and the logits for backward_weight.
  void backward_input(std::uint32_t microbatch, OutputActivations& saved, const Place& gradient) const;
  void backward_weight(OutputActivations& saved) const;
  /// Parts of these three: the gradient towards the output layer's input, (R, h) of workspace; the weight
  /// gradient, which frees the logits; the final norm's backward.
  Tensor norm_gradient(std::uint32_t microbatch, OutputActivations& saved) const;
  void weight_gradient(OutputActivations& saved) const;
  void stream_gradient(const OutputActivations& saved, const Matrix& norm_gradient,
                       const Matrix& gradient) const;
  /// With normalised rows, once the step's gradient is reduced: turns the gradient of the normalised rows
  /// into that of the weights. Collective over the data group with ZeRO.
  void finish_gradients() const;

 private:
  void divide_by_row_lengths(const Matrix& logits) const;

  RankResources& rank_;
  VocabularyShard* shard_;             // null unless the vocabulary is split
  const Parameter* weight_ = nullptr;  // null if it is
  std::vector<int> units_;
  Matrix norm_weight_, norm_bias_;
  Matrix norm_weight_gradient_, norm_bias_gradient_;
  Matrix bias_, bias_gradient_;  // of the output layer; empty without
  Tensor row_sums_;              // (2, v): of row_products; empty unless rows are normalised
  VocabularyColumns columns_;
};

}  // namespace plumbline::training
