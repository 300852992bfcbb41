#include "core/validate/blocked_cycle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// A visitor that numbers nodes and keeps nothing.
struct Counting {
  std::int32_t next = 0;
  std::int32_t wait(int, std::int32_t) { return next++; }
  std::int32_t place(int, int, std::int32_t) { return next++; }
  std::pair<std::int32_t, std::int32_t> place_pair(int, int, std::int32_t) {
    next += 2;
    return {next - 2, next - 1};
  }
  std::int32_t join(Signal, std::int32_t, std::int32_t) { return next++; }
};

/// Is it for this action, too, that a rank waits for `need`?
bool owes(const Schedule& schedule, const Action& action, DependencyWalk::Need need, bool blocking) {
  if (per_step(need.signal)) return gives(action.type, need.signal);
  const auto microbatch = static_cast<std::uint32_t>(need.index % schedule.microbatches);
  if (action.microbatch != microbatch || !gives(action.type, need.signal)) return false;
  if (!per_stage(need.signal)) return true;
  const int stage = need.index / schedule.microbatches;
  const std::optional<Hop> hop = hop_of(action);
  if (!hop || !message_of(need.signal)) return action.stage == stage;
  // A transfer that blocks needs both ranks.
  return hop->from == stage && (blocking || is_send(action.type));
}

/// A rank other than `rank` that still has to give the signal, or -1.
int rank_that_owes(const Schedule& schedule, const DependencyWalk& walk, int rank, DependencyWalk::Need need,
                   bool blocking) {
  const bool meeting = blocking && message_of(need.signal);
  for (int r = 0; r < schedule.ranks; ++r) {
    if (r == rank && (!per_stage(need.signal) || meeting)) continue;
    const auto& actions = schedule.actions[static_cast<std::size_t>(r)];
    for (std::size_t i = walk.stopped_at()[static_cast<std::size_t>(r)]; i < actions.size(); ++i) {
      if (owes(schedule, actions[i], need, blocking)) return r;
    }
  }
  return -1;
}

}  // namespace

BlockedCycle find_blocked_cycle(const Schedule& schedule, WalkOptions options) {
  DependencyWalk walk(schedule, options);
  Counting counting;
  if (walk.run(counting)) return {};
  int rank = 0;
  while (walk.stopped_at()[static_cast<std::size_t>(rank)] ==
         schedule.actions[static_cast<std::size_t>(rank)].size()) {
    ++rank;
  }
  // Follow the waiting from rank to rank until one comes again: from there on it is a cycle.
  std::vector<int> path;
  while (true) {
    const auto seen = std::find(path.begin(), path.end(), rank);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(rank);
    const int next = rank_that_owes(schedule, walk, rank, walk.unmet(rank),
                                    options.transfers != TransferSemantics::posted);
    if (next < 0) {
      path = {rank};
      break;
    }
    rank = next;
  }
  BlockedCycle cycle;
  for (const int r : path) {
    cycle.cells.emplace_back(r, static_cast<int>(walk.stopped_at()[static_cast<std::size_t>(r)]));
  }
  return cycle;
}

std::string describe(const Schedule& schedule, const BlockedCycle& cycle) {
  const auto name = [&](const std::pair<int, int>& cell) {
    const Action& action =
        schedule.actions[static_cast<std::size_t>(cell.first)][static_cast<std::size_t>(cell.second)];
    return fmt::format("{} (rank {}, column {})", to_string(action), cell.first, cell.second + 1);
  };
  if (cycle.cells.empty()) return "";
  std::string text = name(cycle.cells.front());
  if (cycle.cells.size() == 1) return text + " waits for something that no rank will do";
  constexpr std::size_t kShown = 6;
  for (std::size_t i = 1; i < std::min(cycle.cells.size(), kShown); ++i) {
    text += " waits for " + name(cycle.cells[i]);
  }
  if (cycle.cells.size() > kShown) text += fmt::format(" … ({} in the cycle)", cycle.cells.size());
  return text + " waits for the first";
}

}  // namespace plumbline
