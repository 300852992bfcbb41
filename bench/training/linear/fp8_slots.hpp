// The slots of a rank: the places of its layers that are quantized, with their scales. bench/training/fp8.md
// defines slots, their scales, and the memory held.
#pragma once

#include <span>
#include <vector>

#include "bench/training/linear/linear_operand.hpp"
#include "bench/training/parameters/context.hpp"
#include "bench/training/parameters/rank_parameters.hpp"

namespace plumbline::training {

/// In latent attention qkv is the compressing layer; queries and keys_values (one layer) follow it.
enum class LinearLayer { qkv, proj, fc1, fc2, queries, keys_values };
enum class SlotKind { input, weight, gradient };
/// Owner of the slots: the layers for all tokens, if an MoE layer's fc1 and fc2 are those of its shared
/// expert; or the experts.
enum class SlotsOf { tokens, experts };

/// Slots of all layers on the rank, which count from 0 in the order of its stages. Empty without FP8 in the
/// configuration.
class Fp8Slots {
 public:
  Fp8Slots(const TrainingContext& context, const RankParameters& parameters, SlotsOf of = SlotsOf::tokens);
  Fp8Slots(const Fp8Slots&) = delete;
  Fp8Slots& operator=(const Fp8Slots&) = delete;

  struct Place {
    std::int64_t layer = 0;  // on the rank
    LinearLayer linear = LinearLayer::qkv;
    SlotKind kind = SlotKind::input;
    std::int64_t expert = 0;  // on the rank
  };
  /// Q(x) in memory of its own, contiguous. Collective over the tensor group if a scale is found for a tensor
  /// that is split by rows.
  LinearOperand quantized(const Place& place, Category category, const char* holder, const Matrix& x);
  /// The same for the rows of all experts, `rows` of each one after the other, each with its own slot.
  /// `place`: of the first expert.
  LinearOperand quantized_rows(const Place& place, Category category, const char* holder, const Matrix& x,
                               std::span<const std::int64_t> rows);
  /// Q(x) into y, or its transpose into `transposed`, or both, with the slot's own scale, for tensors whose
  /// scale outlives them. Empty: not computed.
  void quantize_in_place(const Place& place, const Matrix& x, const Matrix& y, const Matrix& transposed = {});
  /// The transpose of Q(x) in workspace; x are the weights of `experts` experts one below the other, each
  /// transposed by itself. `place`: of the first, or of a linear layer that is not an expert's.
  LinearOperand transposed_weights(const Place& place, const char* holder, const Matrix& x,
                                   std::int64_t experts);
  /// Inverse scale of the slot, (1, 1), or of `experts` slots from this one on.
  Matrix inverse_scale(const Place& place, std::int64_t experts = 1) const {
    return {scales_.matrix().at(1, index(place)), 1, experts, DType::fp32};
  }
  /// Experts of a layer on the rank.
  std::int64_t experts() const { return context_.shape.local; }

  /// OPT, delayed scaling: the ranks agree on the largest values of the step, which enter the history and
  /// make the scales of the next one. Collective over the tensor, data (for experts that are spread over
  /// ranks those with the same experts) and (bidirectional schedules) mirror groups.
  void end_step(int routes);

  /// Delayed scaling: inputs of the next step's scales.
  bool remembers() const { return static_cast<bool>(history_); }
  /// (2, 1) scale and 1/scale of a slot, (fp8_amax_history_len, 1) its largest values of earlier steps.
  Matrix scales_of(const Place& place) const { return scales_.matrix().columns(index(place), 1); }
  Matrix history_of(const Place& place) const { return history_.matrix().columns(index(place), 1); }
  /// These two have been filled as they were after `steps` steps.
  void resume_after(std::int64_t steps);

 private:
  /// Linear layers before those of a layer, and true if it has experts.
  struct LayerPlace {
    std::int64_t first = 0;
    bool mixture = false;
  };
  std::int64_t index(const Place& place) const;
  std::int64_t linear_layers_of(bool mixture) const;
  /// Among those of a layer.
  std::int64_t order_of(LinearLayer linear) const;
  DType type_of(SlotKind kind) const;
  bool split_by_rows(const Place& place) const;
  void quantize(const Place& place, const Matrix& x, const Matrix& scales, const Matrix& largest,
                const Matrix& y, const Matrix& transposed = {});
  void reduce_between_copies() const;

  const TrainingContext& context_;
  const RankParameters& parameters_;
  const SlotsOf of_;
  const bool delayed_;
  std::vector<LayerPlace> layers_;  // and an end
  std::int64_t linears_ = 0;        // linear layers
  Tensor scales_;                   // (2, n) fp32: scale, 1/scale
  Tensor largest_;                  // (1, n) fp32: absolute values; delayed: met in this step so far
  Tensor history_;            // delayed: (fp8_amax_history_len, n) fp32, largest values of earlier steps
  std::vector<bool> scaled_;  // delayed, by slot: it has its scale of this step
  std::int64_t steps_ = 0;
};

}  // namespace plumbline::training
