#include "bench/training/tape/pass.hpp"

#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

Category Pass::category(Slot slot) const {
  return tape_.memory(slot).category;
}

Matrix Pass::make(Slot slot, std::int64_t rows, std::int64_t cols) {
  const SlotMemory& of = tape_.memory(slot);
  // A repeated forward's result goes nowhere.
  if (of.place && repeats == Repeats::nothing) {
    put(slot, LinearOperand(of.place(microbatch)));
  } else {
    put(slot, context.arena.allocate(of.category, of.holder, rows, cols, of.dtype));
  }
  return (*this)[slot];
}

void Pass::begin_use(const Layer& layer) {
  const Matrix values = rank.values.begin();
  weights_.emplace(layer.weights(values, layer.expert_unit >= 0 ? rank.expert_values.begin() : Matrix()));
}

void Pass::end_use(const Layer& layer) {
  weights_.reset();
  rank.values.end();
  if (layer.expert_unit >= 0) rank.expert_values.end();
}

}  // namespace plumbline::training
