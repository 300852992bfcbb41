#include "core/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/blocked_cycle.hpp"
#include "core/dependency_walk.hpp"
#include "core/error.hpp"
#include "core/lazy_pairs.hpp"
#include "core/validate.hpp"

namespace plumbline {
namespace {

/// One half of a message and where it stands.
struct Half {
  Action action;
  int rank;
  int position;
};

int kind_of(ActionType type) {
  if (type == ActionType::send_forward || type == ActionType::receive_forward) return 0;
  return type == ActionType::send_backward || type == ActionType::receive_backward ? 1 : 2;
}

int sending_stage(const Action& action) {
  if (is_send(action.type)) return action.stage;
  return action.type == ActionType::receive_backward ? action.stage + 1 : action.stage - 1;
}

/// Messages travel in channels that keep their order. Every receive must stand where the message it expects
/// stands among the sends of its channel.
class ChannelOrder {
 public:
  ChannelOrder(const Schedule& schedule, bool tags) : schedule_(schedule) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!is_send(actions[i].type) && !is_receive(actions[i].type)) continue;
        const int from = sending_stage(actions[i]);
        const int kind = kind_of(actions[i].type);
        const int to = kind == 1 ? from - 1 : from + 1;
        // Without tags all messages between two ranks share a channel; with tags one per stage and direction.
        const std::size_t key =
            tags ? static_cast<std::size_t>(from) * 3 + static_cast<std::size_t>(kind)
                 : static_cast<std::size_t>(rank_of(from)) * static_cast<std::size_t>(schedule.ranks) +
                       static_cast<std::size_t>(rank_of(to));
        auto& channel = channels_[key];
        auto& halves = is_send(actions[i].type) ? channel.first : channel.second;
        halves.push_back({actions[i], rank, static_cast<int>(i)});
      }
    }
  }

  Deadlock find() const {
    for (const auto& [key, channel] : channels_) {
      const auto& [sends, receives] = channel;
      for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
        if (i >= sends.size() || i >= receives.size()) {
          const Half& alone = i < sends.size() ? sends[i] : receives[i];
          return {true, alone.rank, alone.position,
                  fmt::format("{} (rank {}, column {}) has no counterpart", to_string(alone.action),
                              alone.rank, alone.position + 1)};
        }
        if (same_message(sends[i].action, receives[i].action)) continue;
        return {true, receives[i].rank, receives[i].position,
                fmt::format(
                    "{} (rank {}, column {}) gets the message of {} (rank {}, column {}): both are number "
                    "{} of their channel",
                    to_string(receives[i].action), receives[i].rank, receives[i].position + 1,
                    to_string(sends[i].action), sends[i].rank, sends[i].position + 1, i + 1)};
      }
    }
    return {};
  }

 private:
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<std::size_t>(stage)]; }
  static bool same_message(const Action& a, const Action& b) {
    return kind_of(a.type) == kind_of(b.type) && sending_stage(a) == sending_stage(b) &&
           a.microbatch == b.microbatch;
  }

  const Schedule& schedule_;
  std::map<std::size_t, std::pair<std::vector<Half>, std::vector<Half>>> channels_;
};

Deadlock find_circle(const Schedule& schedule, WalkOptions options) {
  const BlockedCycle cycle = find_blocked_cycle(schedule, options);
  if (cycle.cells.empty()) return {};
  return {true, cycle.cells.front().first, cycle.cells.front().second, describe(schedule, cycle)};
}

}  // namespace

std::string_view name_of(Ordering ordering) {
  switch (ordering) {
    case Ordering::synchronous:
      return "synchronous sends";
    case Ordering::grouped:
      return "grouped calls";
    case Ordering::posted_sends:
      return "posted sends";
    case Ordering::lazy_pairs:
      return "lazy communicators";
  }
  return "";
}

Deadlock find_deadlock(const Schedule& schedule, Ordering ordering) {
  check_ranges(schedule);
  if (ordering == Ordering::lazy_pairs) {
    const BlockedCycle cycle = find_lazy_pair_cycle(schedule);
    if (cycle.cells.empty()) return {};
    return {true, cycle.cells.front().first, cycle.cells.front().second, describe(schedule, cycle)};
  }
  const Deadlock mixed = ChannelOrder(schedule, ordering != Ordering::grouped).find();
  WalkOptions options;
  options.one_send_buffer = ordering == Ordering::posted_sends;
  if (ordering == Ordering::synchronous) options.transfers = TransferSemantics::synchronous;
  if (ordering == Ordering::grouped) options.transfers = TransferSemantics::grouped;
  // A message that goes astray explains more than the waiting that follows from it.
  return mixed.found ? mixed : find_circle(schedule, options);
}

void check_deadlock_free(const Schedule& schedule) {
  for (const Ordering ordering : {Ordering::synchronous, Ordering::grouped}) {
    const Deadlock deadlock = find_deadlock(schedule, ordering);
    if (!deadlock.found) continue;
    throw InputError(fmt::format("schedule {} hangs with {}: {}\n{}", schedule.name, name_of(ordering),
                                 deadlock.what, grid_around(schedule, deadlock.rank, deadlock.position)));
  }
}

}  // namespace plumbline
