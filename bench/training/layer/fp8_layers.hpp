// The linear layers of a rank in FP8: their slots and their quantized weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/layer/fp8_slots.hpp"
#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// A slot as a layer sees it; by default none, and everything stays in the storage type.
class Fp8Slot {
 public:
  Fp8Slot() = default;
  Fp8Slot(Fp8Slots& slots, const Fp8Slots::Place& place) : slots_(&slots), place_(place) {}
  explicit operator bool() const { return slots_ != nullptr; }

  /// x for a product that is done with it soon: quantized into workspace, or x itself.
  LinearOperand read(const Matrix& x, const char* holder) const {
    return slots_ != nullptr ? slots_->quantized(place_, Category::workspace, holder, x) : LinearOperand(x);
  }
  /// x for products now and in the backward: quantized into memory of `category`, and x is freed; or x
  /// itself.
  LinearOperand keep(Tensor x, Category category, const char* holder) const {
    return slots_ != nullptr ? slots_->quantized(place_, category, holder, x) : LinearOperand(std::move(x));
  }
  /// x into y with the slot's own scale: a weight.
  void quantize_in_place(const Matrix& x, const Matrix& y) const { slots_->quantize_in_place(place_, x, y); }
  Matrix inverse_scale() const { return slots_->inverse_scale(place_); }

 private:
  Fp8Slots* slots_ = nullptr;
  Fp8Slots::Place place_;
};

/// One linear layer.
struct Fp8Linear {
  Fp8Slot input, weight, gradient;
  Matrix quantized;   // weight (out, in), held for the run; empty with ZeRO 3
  Matrix transposed;  // (in, out), likewise
};

/// Those of a decoder layer; by default none is in FP8.
struct Fp8Layer {
  Fp8Linear qkv, proj, fc1, fc2;
};

/// A column of numbers of one slot.
struct Fp8State {
  std::string name;  // "layers.12.qkv.input.history": the same in every split
  int route = 0;     // of the stage that has the layer
  Matrix memory;     // fp32
};

/// Without FP8 in the configuration it holds nothing and does nothing.
class Fp8Layers {
 public:
  Fp8Layers(const TrainingContext& context, const RankParameters& parameters, const ParameterMemory& memory);

  /// Layer `layer` of a stage of this rank, from 0.
  Fp8Layer layer(const StageEntry& stage, std::int64_t layer);
  /// From the values, which are whole: before the first step and after each update. Nothing with ZeRO 3,
  /// where weights are quantized at their use.
  void quantize_weights();
  /// OPT; see Fp8Slots.
  void end_step(int routes) { slots_.end_step(routes); }

  /// What the scales of the next step come from, of every layer of every stage; nothing without delayed scaling.
  std::vector<Fp8State> states() const;
  /// They have been filled as they were after so many steps; quantizes the weights as they are now.
  void resume_after(std::int64_t steps);

 private:
  const TrainingContext& context_;
  const RankParameters& parameters_;
  const ParameterMemory& memory_;
  Fp8Slots slots_;
  Tensor weights_;     // quantized, layer after layer
  Tensor transposed_;  // the same matrices transposed, in the same places
};

}  // namespace plumbline::training
