#include "core/validate/lazy_connection_deadlock.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

class LazyPairs {
 public:
  explicit LazyPairs(const Schedule& schedule)
      : schedule_(schedule), cursor_(schedule.actions.size()), waits_for_(schedule.actions.size(), -1) {}

  BlockedCycle run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < schedule_.ranks; ++rank) {
        while (step(rank)) moved = true;
      }
    }
    return waiting_cycle();
  }

 private:
  const Action* next(int rank) const {
    const auto& actions = schedule_.actions[static_cast<std::size_t>(rank)];
    const std::size_t at = cursor_[static_cast<std::size_t>(rank)];
    return at < actions.size() ? &actions[at] : nullptr;
  }

  /// The rank at the other end of a message.
  int peer(int rank, const Hop& hop) const {
    const Channel channel = channel_of(schedule_, hop);
    return channel.from == rank ? channel.to : channel.from;
  }

  /// Lets the rank do its next action, if it can.
  bool step(int rank) {
    const Action* action = next(rank);
    if (action == nullptr) return false;
    const auto r = static_cast<std::size_t>(rank);
    if (const auto hop = hop_of(*action)) {
      const int other = peer(rank, *hop);
      const std::pair<int, int> pair = std::minmax(rank, other);
      if (!connected_.contains(pair)) {
        const Action* theirs = next(other);
        const auto their_hop = theirs == nullptr ? std::nullopt : hop_of(*theirs);
        if (!their_hop || peer(other, *their_hop) != rank) {
          waits_for_[r] = other;
          return false;
        }
        connected_.insert(pair);
      }
      if (is_send(action->type)) {
        sent_.insert(*hop);
      } else {
        expected_.insert({rank, {*hop, other}});
      }
    } else {
      // Compute waits for all earlier submissions of the rank.
      auto& expected = expected_;
      for (auto at = expected.lower_bound({rank, {}}); at != expected.end() && at->first == rank;) {
        if (!sent_.contains(at->second.first)) {
          waits_for_[r] = at->second.second;
          return false;
        }
        at = expected.erase(at);
      }
    }
    ++cursor_[r];
    return true;
  }

  BlockedCycle waiting_cycle() const {
    int rank = 0;
    while (rank < schedule_.ranks && next(rank) == nullptr) ++rank;
    if (rank == schedule_.ranks) return {};
    std::vector<int> path;
    while (true) {
      const auto seen = std::find(path.begin(), path.end(), rank);
      if (seen != path.end()) {
        path.erase(path.begin(), seen);
        break;
      }
      path.push_back(rank);
      rank = waits_for_[static_cast<std::size_t>(rank)];
      if (next(rank) == nullptr) {
        path = {path.back()};  // waits for a rank that has finished
        break;
      }
    }
    BlockedCycle cycle;
    for (const int r : path)
      cycle.cells.emplace_back(r, static_cast<int>(cursor_[static_cast<std::size_t>(r)]));
    return cycle;
  }

  const Schedule& schedule_;
  std::vector<std::size_t> cursor_;
  std::vector<int> waits_for_;
  std::set<std::pair<int, int>> connected_;
  std::set<Hop> sent_;
  std::set<std::pair<int, std::pair<Hop, int>>> expected_;  // rank, (message, its sender)
};

}  // namespace

BlockedCycle find_lazy_pair_cycle(const Schedule& schedule) {
  return LazyPairs(schedule).run();
}

}  // namespace plumbline
