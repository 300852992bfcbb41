// A periodic schedule, whose period is stored once. It answers questions about a step of a million
// micro-batches without a list of its actions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Every rank's list is a beginning, `copies` copies of a period and an end. From copy to copy only the
/// micro-batches change, each route's by `step`; actions after the last copy move with it. `once` has one
/// copy, which is the last one: reductions that start with the last gradient may be in it.
struct RepeatedSchedule {
  struct Period {
    std::size_t first = 0;
    std::size_t length = 0;
    std::size_t end() const { return first + length; }
  };

  RepeatedSchedule() = default;
  /// One that does not repeat itself, or is already short.
  RepeatedSchedule(Schedule schedule)  // NOLINT(google-explicit-constructor): any schedule is one
      : once(std::move(schedule)), microbatches(once.microbatches) {}

  Schedule once;
  std::vector<Period> periods;  // by rank; empty: nothing repeats
  int step = 0;
  std::int64_t copies = 1;
  std::int64_t microbatches = 1;  // of the whole step, all routes together

  bool repeats() const { return copies > 1; }
  /// An action of `once` as it is in the whole step. `copy`: 0 for the beginning and the first copy, copies -
  /// 1 for the copy that is written down and for the end.
  Action in_step(const Action& action, std::int64_t copy) const;
};

/// The step with `copies` copies: `repeated.copies` for all of it, fewer for a shorter one. Throws InputError
/// when it has more actions than kMostActions.
Schedule with_copies(const RepeatedSchedule& repeated, std::int64_t copies);

/// From three schedules of one kind, each with the next copy of the period, the one with `microbatches`.
/// Nothing when they do not repeat themselves, or `microbatches` are not a whole number of periods more.
std::optional<RepeatedSchedule> find_repetition(const Schedule& shorter, const Schedule& once,
                                                const Schedule& twice, std::int64_t microbatches);

/// Number of actions of each type on each stage in the whole step.
using ActionCounts = std::vector<std::array<std::int64_t, kActionTypes>>;
ActionCounts count_by_stage(const RepeatedSchedule& repeated);
/// All of them.
std::int64_t count_of(const ActionCounts& counts);

}  // namespace plumbline
