#include "core/validate/blocked_cycle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// A visitor that numbers what it sees and keeps nothing.
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

/// The types of action that raise a signal.
bool raises(ActionType type, Signal signal) {
  using enum ActionType;
  switch (signal) {
    case Signal::activation:
      return type == forward;
    case Signal::gradient:
      return type == backward || type == backward_input;
    case Signal::teacher:
      return type == teacher_forward;
    case Signal::sent_forward:
      return type == send_forward;
    case Signal::sent_backward:
      return type == send_backward;
    case Signal::sent_teacher:
      return type == send_teacher;
    case Signal::taken_forward:
      return type == receive_forward;
    case Signal::taken_backward:
      return type == receive_backward;
    case Signal::vocab_scores:
    case Signal::vocab_meet_s:
      return type == vocab_forward;
    case Signal::vocab_gradient:
    case Signal::vocab_meet_t:
      return type == vocab_backward;
    case Signal::input:
      return type == input_forward;
    case Signal::input_gradient:
      return type == input_backward;
    case Signal::embedding_meet:
      return type == reduce_embedding;
    case Signal::end_meet:
      return type == optimizer;
  }
  return false;
}

/// A rank other than `rank` that still has to raise the signal, or -1.
int rank_that_owes(const Schedule& schedule, const DependencyWalk& walk, int rank, DependencyWalk::Need need,
                   bool blocking) {
  const bool per_stage = need.signal <= Signal::sent_teacher;
  const bool per_step = need.signal >= Signal::embedding_meet;
  const auto microbatch = static_cast<std::uint32_t>(need.index % schedule.microbatches);
  const int stage = per_stage ? need.index / schedule.microbatches : 0;
  // A transfer that blocks needs both ranks.
  const std::optional<Payload> payload = message_of(need.signal);
  const bool meeting = blocking && payload.has_value();
  const Hop hop{stage, payload.value_or(Payload::activation), microbatch};
  for (int r = 0; r < schedule.ranks; ++r) {
    if (r == rank && (!per_stage || meeting)) continue;
    const auto& actions = schedule.actions[static_cast<std::size_t>(r)];
    for (std::size_t i = walk.stopped_at()[static_cast<std::size_t>(r)]; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (per_step ? raises(action.type, need.signal)
                   : action.microbatch == microbatch && raises(action.type, need.signal) &&
                         (!per_stage || action.stage == stage)) {
        return r;
      }
      if (meeting && is_receive(action.type) && *hop_of(action) == hop) return r;
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
  // Follow the waiting from rank to rank until one comes again: from there on it is a circle.
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
  if (cycle.cells.size() > kShown) text += fmt::format(" … ({} in the circle)", cycle.cells.size());
  return text + " waits for the first";
}

}  // namespace plumbline
