// The linear layers of a rank in FP8: their slots and their quantized weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/linear/fp8_slots.hpp"
#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// A slot as a layer sees it; by default none, and everything stays in the storage type.
class Fp8Slot {
 public:
  Fp8Slot() = default;
  Fp8Slot(Fp8Slots& slots, const Fp8Slots::Place& place) : slots_(&slots), place_(place) {}
  explicit operator bool() const { return slots_ != nullptr; }

  /// x for a product that is done with it soon: quantized into workspace, or memory of `category`, or x
  /// itself.
  LinearOperand read(const Matrix& x, const char* holder, Category category = Category::workspace) const {
    return slots_ != nullptr ? slots_->quantized(place_, category, holder, x) : LinearOperand(x);
  }
  /// x for products now and in the backward: quantized into memory of `category`, and x is freed; or x
  /// itself.
  LinearOperand keep(Tensor x, Category category, const char* holder) const {
    return slots_ != nullptr ? slots_->quantized(place_, category, holder, x) : LinearOperand(std::move(x));
  }
  /// The same two of the rows of experts, `rows` of each, if this is the slot of the first one.
  LinearOperand read_rows(const Matrix& x, std::span<const std::int64_t> rows, const char* holder) const {
    return slots_ != nullptr ? slots_->quantized_rows(place_, Category::workspace, holder, x, rows)
                             : LinearOperand(x);
  }
  LinearOperand keep_rows(Tensor x, std::span<const std::int64_t> rows, Category category,
                          const char* holder) const {
    return slots_ != nullptr ? slots_->quantized_rows(place_, category, holder, x, rows)
                             : LinearOperand(std::move(x));
  }
  /// Category of a tensor in its original type before it is quantized: `kept`, or workspace if it is freed
  /// soon.
  Category category_of_wide(Category kept) const { return slots_ != nullptr ? Category::workspace : kept; }
  /// x into y, and its transpose, with the slot's own scale: a weight.
  void quantize_in_place(const Matrix& x, const Matrix& y, const Matrix& transposed) const {
    slots_->quantize_in_place(place_, x, y, transposed);
  }
  /// The transpose of the quantized weights of `experts` experts, if this is the slot of the first one; of
  /// one, for any linear layer.
  LinearOperand read_transposed(const Matrix& x, std::int64_t experts, const char* holder) const {
    return slots_->transposed_weights(place_, holder, x, experts);
  }
  Matrix inverse_scale() const { return slots_->inverse_scale(place_); }
  /// Inverse scales of all experts, if this is the slot of the first one.
  Matrix inverse_scales() const { return slots_->inverse_scale(place_, slots_->experts()); }
  Fp8Slot of_expert(std::int64_t expert) const {
    Fp8Slot slot = *this;
    slot.place_.expert = expert;
    return slot;
  }

 private:
  Fp8Slots* slots_ = nullptr;
  Fp8Slots::Place place_;
};

/// One linear layer; or those of all experts, with the slots of the first one and the matrices one below the
/// other.
struct Fp8Linear {
  Fp8Slot input, weight, gradient;
  Matrix quantized;   // weight (out, in), held for the run; empty with ZeRO 3
  Matrix transposed;  // (in, out), likewise
};

/// The linear layers of an MoE layer.
struct Fp8Mixture {
  Fp8Linear fc1, fc2;  // of the experts
  Fp8Linear shared_fc1, shared_fc2;
};
/// Those of a decoder layer; by default none is in FP8.
struct Fp8Layer {
  Fp8Linear qkv, proj, fc1, fc2;   // in latent attention qkv is the compressing layer
  Fp8Linear queries, keys_values;  // of that
  Fp8Mixture mixture;              // in place of fc1 and fc2
};

/// A column of numbers of one slot.
struct Fp8State {
  std::string name;  // "layers.12.qkv.input.history": the same in every split
  int route = 0;     // of the stage that has the layer
  bool of_expert = false;
  Matrix memory;  // fp32
};

/// Without FP8 in the configuration it holds nothing and does nothing.
class Fp8Layers {
 public:
  Fp8Layers(const TrainingContext& context, const RankParameters& parameters, const ParameterMemory& memory);

  /// Layer `layer` of a stage of this rank, from 0; then those of its MTP modules.
  Fp8Layer layer(const StageEntry& stage, std::int64_t layer);
  /// From the values, which are whole: before the first step and after each update. Nothing with ZeRO 3,
  /// where weights are quantized at their use, and of units that the next forward gathers.
  void quantize_weights();
  /// Those of a unit that has been gathered.
  void quantize_weights(int unit);
  /// OPT; see Fp8Slots.
  void end_step(int routes) {
    slots_.end_step(routes);
    expert_slots_.end_step(routes);
  }

  /// Inputs of the next step's scales, for every layer of every stage; nothing without delayed scaling.
  std::vector<Fp8State> states() const;
  /// They have been filled with the states after `steps` steps; quantizes the current weights.
  void resume_after(std::int64_t steps);

 private:
  std::int64_t on_rank(const StageEntry& stage, std::int64_t layer) const;
  template <class Wanted>
  void quantize_weights_of(const Wanted& wanted);

  const TrainingContext& context_;
  const RankParameters& parameters_;
  const ParameterMemory& memory_;
  Fp8Slots slots_;
  Fp8Slots expert_slots_;
  std::vector<std::int64_t> offsets_;  // of the layers' quantized weights, in elements
  Tensor weights_;                     // quantized, layer after layer
  Tensor transposed_;                  // the same matrices transposed, in the same places
};

}  // namespace plumbline::training
