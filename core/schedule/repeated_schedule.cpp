#include "core/schedule/repeated_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

bool of_a_microbatch(ActionType type) {
  return is_compute(type) || is_transfer(type);
}

/// The action in a schedule with `to` micro-batches on every route in place of `from`, `later` micro-batches
/// later.
Action moved(Action action, std::int64_t from, std::int64_t to, std::int64_t later) {
  if (!of_a_microbatch(action.type)) return action;
  const std::int64_t route = action.microbatch / from;
  action.microbatch = static_cast<std::uint32_t>(route * to + action.microbatch % from + later);
  return action;
}

std::int64_t per_route(const Schedule& schedule) {
  return schedule.microbatches / schedule.routes;
}

/// Same ranks, stages and rules.
bool alike(const Schedule& a, const Schedule& b) {
  return a.ranks == b.ranks && a.stages == b.stages && a.routes == b.routes &&
         a.barrier_at_end == b.barrier_at_end && a.vocab == b.vocab && a.joint_teacher == b.joint_teacher &&
         a.rank_of_stage == b.rank_of_stage && a.actions.size() == b.actions.size();
}

}  // namespace

Action RepeatedSchedule::in_step(const Action& action, std::int64_t copy) const {
  return moved(action, per_route(once), microbatches / once.routes, copy * step);
}

Schedule with_copies(const RepeatedSchedule& repeated, std::int64_t copies) {
  const Schedule& once = repeated.once;
  if (copies == 1 || repeated.periods.empty()) return once;
  const std::int64_t from = per_route(once);
  const std::int64_t to = from + (copies - 1) * repeated.step;
  std::int64_t count = 0;
  for (std::size_t rank = 0; rank < once.actions.size(); ++rank) {
    count += static_cast<std::int64_t>(once.actions[rank].size()) +
             (copies - 1) * static_cast<std::int64_t>(repeated.periods[rank].length);
  }
  check_actions(once.name, count);
  Schedule schedule = once;
  schedule.microbatches = static_cast<int>(to * once.routes);
  for (std::size_t rank = 0; rank < once.actions.size(); ++rank) {
    const RepeatedSchedule::Period& period = repeated.periods[rank];
    const std::vector<Action>& given = once.actions[rank];
    std::vector<Action>& actions = schedule.actions[rank];
    actions.clear();
    actions.reserve(given.size() + static_cast<std::size_t>(copies - 1) * period.length);
    const auto append = [&](std::size_t begin, std::size_t end, std::int64_t copy) {
      for (std::size_t i = begin; i < end; ++i)
        actions.push_back(moved(given[i], from, to, copy * repeated.step));
    };
    append(0, period.first, 0);
    for (std::int64_t copy = 0; copy < copies; ++copy) append(period.first, period.end(), copy);
    append(period.end(), given.size(), copies - 1);
  }
  return schedule;
}

std::optional<RepeatedSchedule> find_repetition(const Schedule& shorter, const Schedule& once,
                                                const Schedule& twice, std::int64_t microbatches) {
  if (!alike(shorter, once) || !alike(once, twice)) return std::nullopt;
  RepeatedSchedule found(once);
  found.microbatches = microbatches;
  const std::int64_t from = per_route(shorter);
  const std::int64_t to = per_route(once);
  found.step = static_cast<int>(to - from);
  const std::int64_t more = microbatches - once.microbatches;
  if (found.step < 1 || more < 0 || more % (static_cast<std::int64_t>(found.step) * once.routes) != 0)
    return std::nullopt;
  found.copies = 1 + more / (static_cast<std::int64_t>(found.step) * once.routes);
  for (std::size_t rank = 0; rank < once.actions.size(); ++rank) {
    const std::vector<Action>& less = shorter.actions[rank];
    const std::vector<Action>& all = once.actions[rank];
    if (all.size() <= less.size()) return std::nullopt;
    std::size_t first = 0;
    while (first < less.size() && moved(less[first], from, to, 0) == all[first]) ++first;
    const std::size_t length = all.size() - less.size();
    for (std::size_t i = first; i < less.size(); ++i) {
      if (moved(less[i], from, to, found.step) != all[i + length]) return std::nullopt;
    }
    found.periods.push_back({first, length});
  }
  const Schedule expected = with_copies(found, 2);
  if (twice.microbatches != expected.microbatches || twice.actions != expected.actions) return std::nullopt;
  return found;
}

ActionCounts count_by_stage(const RepeatedSchedule& repeated) {
  ActionCounts counts(static_cast<std::size_t>(repeated.once.stages));
  for (std::size_t rank = 0; rank < repeated.once.actions.size(); ++rank) {
    const std::vector<Action>& actions = repeated.once.actions[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool again =
          repeated.repeats() && i >= repeated.periods[rank].first && i < repeated.periods[rank].end();
      counts[actions[i].stage][static_cast<std::size_t>(actions[i].type)] += again ? repeated.copies : 1;
    }
  }
  return counts;
}

std::int64_t count_of(const ActionCounts& counts) {
  std::int64_t sum = 0;
  for (const auto& of_stage : counts) {
    for (const std::int64_t count : of_stage) sum += count;
  }
  return sum;
}

}  // namespace plumbline
