// The output end of the model: final norm, output layer, loss.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/ends/vocabulary_columns.hpp"
#include "bench/training/ends/vocabulary_shard.hpp"
#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// The final norm's output and its statistics, of `input`.
struct NormedOutput {
  Tensor input, norm, stats;
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
  /// The final norm: its vectors, their gradients, and the multiplier of its output.
  NormVectors norm() const { return {norm_weight_, norm_bias_}; }
  NormVectors norm_gradients() const { return {norm_weight_gradient_, norm_bias_gradient_}; }
  double multiplier() const { return rank_.context.model().multipliers.logits; }
  /// Without a backward: fills norm and stats.
  void normalise(NormedOutput& saved) const;
  /// The output layer's product (T, v) of `type`.
  Tensor project(const Matrix& norm, Category category, DType type) const;
  /// The loss of the logits, summed over the tokens; leaves their gradient times `scale`, in place or, where
  /// it works in fp32, in fp32.
  Number loss(const Matrix& targets, double scale, Tensor& logits) const;
  /// Loss of the policy or, with a scalar head, of values: `tokens` as in Operators::policy_loss, value_loss.
  Number policy_loss(const Matrix& targets, const Matrix& tokens, double scale, Tensor& logits) const;
  /// The gradient (R, h) of workspace towards the final norm's output, from that of the logits, which is
  /// rounded before if need be.
  Tensor norm_gradient(Tensor& logits) const;
  /// The gradients of the output layer's weight and bias are added to.
  void weight_gradient(const Matrix& logits, const Matrix& norm) const;
  /// With a split vocabulary: the norm's output goes to the shards, its gradient comes from them.
  void start_hidden(std::uint32_t microbatch, Tensor norm) const;
  Tensor hidden_gradient(std::uint32_t microbatch) const { return shard_->hidden_gradient(microbatch); }
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
