// The values of units at their use: in place, or with ZeRO 3 gathered from the data ranks just before.
#pragma once

#include <span>

#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// An action says up front which units it uses, in order. At most two gathered units are alive: the one in
/// use and the next, whose gather runs meanwhile. Immediate repeats are one use.
class UnitValues {
 public:
  UnitValues(const TrainingContext& context, const ParameterMemory& memory);

  /// Starts the first gather. `uses` must stay alive until the last end().
  void begin_action(std::span<const int> uses);
  /// The next use begins: the unit's values, as one row.
  Matrix begin();
  void end();

 private:
  struct Gather {
    Tensor values;
    Ticket ticket;
  };
  Gather start(int unit);

  const TrainingContext& context_;
  const ParameterMemory& memory_;
  const bool sharded_;
  std::span<const int> uses_;
  std::size_t at_ = 0;
  Gather current_;
  Gather next_;
};

}  // namespace plumbline::training
