#include "core/validate/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule/hop.hpp"
#include "core/validate/blocked_cycle.hpp"
#include "core/validate/lazy_connection_deadlock.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {
namespace {

/// One half of a message and where it stands.
struct Half {
  Action action;
  Hop hop;
  int rank;
  int position;
};

/// Messages travel in channels that keep their order. Every receive must stand where the message it expects
/// stands among the sends of its channel. Without tags all messages between two ranks share a channel; with
/// tags there is one per stage and direction.
class ChannelOrder {
 public:
  ChannelOrder(const Schedule& schedule, bool tags) : schedule_(schedule) {
    number_channels(tags);
    sends_.resize(count_);
    receives_.resize(count_);
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const std::optional<Hop> hop = hop_of(actions[i]);
        if (!hop) continue;
        (is_send(actions[i].type) ? sends_ : receives_)[channels_[static_cast<std::size_t>(tag_of(*hop))]]
            .push_back({actions[i], *hop, rank, static_cast<int>(i)});
      }
    }
  }

  Deadlock find() const {
    for (std::size_t channel = 0; channel < count_; ++channel) {
      const auto& sends = sends_[channel];
      const auto& receives = receives_[channel];
      for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
        if (i >= sends.size() || i >= receives.size()) {
          const Half& alone = i < sends.size() ? sends[i] : receives[i];
          return {true, alone.rank, alone.position,
                  fmt::format("{} (rank {}, column {}) has no counterpart", to_string(alone.action),
                              alone.rank, alone.position + 1)};
        }
        if (sends[i].hop == receives[i].hop) continue;
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
  /// One number per tag, the same for those that share a channel.
  void number_channels(bool tags) {
    channels_.assign(static_cast<std::size_t>(schedule_.stages) * kPayloads, 0);
    if (tags) {
      for (std::size_t i = 0; i < channels_.size(); ++i) channels_[i] = i;
      count_ = channels_.size();
      return;
    }
    std::map<Channel, std::size_t> pairs;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (const Payload payload : kAllPayloads) {
        const Hop hop{stage, payload, 0};
        if (hop.to() < 0 || hop.to() >= schedule_.stages) continue;
        channels_[static_cast<std::size_t>(tag_of(hop))] =
            pairs.try_emplace(channel_of(schedule_, hop), pairs.size()).first->second;
      }
    }
    count_ = pairs.size();
  }
  const Schedule& schedule_;
  std::size_t count_ = 0;
  std::vector<std::size_t> channels_;  // by tag
  std::vector<std::vector<Half>> sends_;
  std::vector<std::vector<Half>> receives_;
};

Deadlock find_cycle(const Schedule& schedule, WalkOptions options) {
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
  return mixed.found ? mixed : find_cycle(schedule, options);
}

void check_deadlock_free(const Schedule& schedule) {
  for (const Ordering ordering : {Ordering::synchronous, Ordering::grouped}) {
    const Deadlock deadlock = find_deadlock(schedule, ordering);
    if (!deadlock.found) continue;
    throw InputError(
        fmt::format("schedule {} hangs with {}: {}", schedule.name, name_of(ordering), deadlock.what),
        grid_around(schedule, deadlock.rank, deadlock.position));
  }
}

}  // namespace plumbline
