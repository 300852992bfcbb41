// The values of units at their use: in place, or gathered from the data ranks just before.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// Values of units that the same ranks have copies of: all but experts that are spread over ranks, or these.
/// An action declares its units up front, in order; immediate repeats are one use.
/// - ZeRO 3: at most two gathered units are alive, the one in use and the next, whose gather runs meanwhile;
///   without overlap_param_gather only the one in use, and nothing runs meanwhile.
/// - ZeRO 1 and 2 with overlap_param_gather: the first use of a unit in a step needs it gathered, in place,
///   one ahead as well (bench/training/overlap.md).
/// - Secondary shards: the first use of a unit in a step gathers it from all ranks and keeps this rank's
///   shard, and later ones gather those (bench/training/hpz.md).
class UnitValues {
 public:
  /// `copies`: how many ranks share the values, of an optimizer instance.
  UnitValues(const TrainingContext& context, const ParameterMemory& memory, int copies);

  /// `use` is called for every unit that is gathered in place, once it is whole.
  void use_gathered(std::function<void(int unit)> use) { use_gathered_ = std::move(use); }
  /// No unit has been gathered in this step.
  void start_step();
  /// Starts the first gather; each action of an overlapped pair has its own uses. `uses` must stay alive
  /// until the last end().
  void begin_action(std::span<const int> uses);
  /// The next use begins: the unit's values, as one row.
  Matrix begin();
  void end();
  /// For gathers, since this was made.
  Seconds waited() const { return waited_; }

 private:
  struct Gather {
    int unit = -1;  // ZeRO 1 and 2: whose gather runs
    Tensor values;  // ZeRO 3
    Ticket ticket;
  };
  /// Units that one action uses, and its progress.
  struct Action {
    std::span<const int> uses;
    std::size_t at = 0;
    Gather current;
    Gather next;
    /// The next use that has another unit than the one in use.
    std::size_t following() const;
  };
  Gather start(int unit);
  /// Keeps this rank's secondary shard of the unit in use.
  void keep_secondary_shard(int unit, const Matrix& values);
  Action& action() { return actions_[context_.turns == nullptr ? 0 : context_.turns->current()]; }
  /// ZeRO 1 and 2: starts the gather of the first use from `at` on whose unit has not been gathered.
  void start_in_place(Action& mine, std::size_t at);
  Matrix begin_in_place(Action& mine, int unit);

  const TrainingContext& context_;
  const ParameterMemory& memory_;
  const bool sharded_;  // so that values have to be gathered
  const bool overlaps_;
  const bool in_place_;
  std::array<Action, 2> actions_;  // one, or those of an overlapped pair
  std::function<void(int)> use_gathered_;
  std::vector<bool> gathered_;  // by unit, in this step; in place, and with secondary shards
  Seconds waited_;
};

}  // namespace plumbline::training
