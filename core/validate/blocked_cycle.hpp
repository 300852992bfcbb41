// Who waits for whom when a schedule cannot run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/schedule/dependency_walk.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Actions (rank, position), each of which waits for the next one, the last for the first. Empty: none.
struct BlockedCycle {
  std::vector<std::pair<int, int>> cells;
};

/// Runs the dependencies of the schedule (which must pass check_ranges()). If they do not reach the end,
/// returns a cycle of waiting actions, or a single cell that waits for an action that does not exist.
BlockedCycle find_blocked_cycle(const Schedule& schedule, WalkOptions options);

/// "3F1 (rank 1, column 9) waits for …", one line.
std::string describe(const Schedule& schedule, const BlockedCycle& cycle);

}  // namespace plumbline
