// One action of one micro-batch, as the steps of a tape see it.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/frame.hpp"
#include "bench/training/tape/step.hpp"

namespace plumbline::training {

class Tape;

class Pass {
 public:
  /// All must outlive it.
  Pass(RankResources& of, const Tape& tape, Frame& frame, std::uint32_t of_microbatch)
      : rank(of),
        context(of.context),
        microbatch(of_microbatch),
        dropout(of.dropout(of_microbatch)),
        tape_(tape),
        frame_(frame) {}
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  RankResources& rank;
  const TrainingContext& context;
  const std::uint32_t microbatch;
  const MicrobatchDropout dropout;
  Repeats repeats = Repeats::nothing;  // of the step in progress

  const LinearOperand& operand(Slot slot) const { return at(slot); }
  const Matrix& operator[](Slot slot) const { return at(slot).values(); }
  /// Empty for a slot that does not exist.
  Matrix view(Slot slot) const { return slot ? at(slot).values() : Matrix(); }
  /// Category of the slot's memory.
  Category category(Slot slot) const;

  /// Allocates the slot's memory, or takes the place that it has elsewhere.
  Matrix make(Slot slot, std::int64_t rows, std::int64_t cols);
  Matrix make_stream(Slot slot) { return make(slot, context.shape.rows, context.shape.hidden); }
  void put(Slot slot, LinearOperand made) { at(slot) = std::move(made); }
  void put(Slot slot, Tensor made) { at(slot) = LinearOperand(std::move(made)); }
  /// The tensor of the storage type in a slot, which it leaves empty.
  Tensor take(Slot slot) { return at(slot).release(); }
  void release(int memory) { frame_.memory[static_cast<std::size_t>(memory)].reset(); }

  /// Weights of the layer whose values are in use.
  const LayerWeights& weights() const { return *weights_; }
  void begin_use(const Layer& layer);
  void end_use(const Layer& layer);
  /// The layer's gradients, opened.
  LayerMatrices open(const Layer& layer) const { return layer.open(rank.gradients); }
  MixtureState& mixture(int number) { return frame_.mixtures[static_cast<std::size_t>(number)]; }
  Frame& frame() { return frame_; }

 private:
  LinearOperand& at(Slot slot) const { return frame_.memory[static_cast<std::size_t>(slot.memory)]; }

  const Tape& tape_;
  Frame& frame_;
  std::optional<LayerWeights> weights_;
};

}  // namespace plumbline::training
