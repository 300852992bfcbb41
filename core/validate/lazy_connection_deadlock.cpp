#include "core/validate/lazy_connection_deadlock.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

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
    return circle();
  }

 private:
  using Message = std::pair<std::int64_t, std::uint32_t>;  // sending stage and direction; micro-batch

  const Action* next(int rank) const {
    const auto& actions = schedule_.actions[static_cast<std::size_t>(rank)];
    const std::size_t at = cursor_[static_cast<std::size_t>(rank)];
    return at < actions.size() ? &actions[at] : nullptr;
  }

  int peer_stage(const Action& action) const {
    const bool up = action.type == ActionType::send_forward || action.type == ActionType::send_teacher ||
                    action.type == ActionType::receive_backward;
    return up ? action.stage + 1 : action.stage - 1;
  }
  int peer(const Action& action) const {
    return schedule_.rank_of_stage[static_cast<std::size_t>(peer_stage(action))];
  }

  Message message(const Action& action) const {
    const int from = is_send(action.type) ? action.stage : peer_stage(action);
    const bool backward =
        action.type == ActionType::send_backward || action.type == ActionType::receive_backward;
    const bool teacher =
        action.type == ActionType::send_teacher || action.type == ActionType::receive_teacher;
    return {static_cast<std::int64_t>(from) * 3 + (backward ? 1 : teacher ? 2 : 0), action.microbatch};
  }

  static bool is_transfer(ActionType type) { return is_send(type) || is_receive(type); }

  /// Lets the rank do its next action, if it can.
  bool step(int rank) {
    const Action* action = next(rank);
    if (action == nullptr) return false;
    const auto r = static_cast<std::size_t>(rank);
    if (is_transfer(action->type)) {
      const int other = peer(*action);
      const std::pair<int, int> pair = std::minmax(rank, other);
      if (!connected_.contains(pair)) {
        const Action* theirs = next(other);
        if (theirs == nullptr || !is_transfer(theirs->type) || peer(*theirs) != rank) {
          waits_for_[r] = other;
          return false;
        }
        connected_.insert(pair);
      }
      if (is_send(action->type)) {
        sent_.insert(message(*action));
      } else {
        expected_.insert({rank, {message(*action), other}});
      }
    } else {
      // Compute waits for all that the rank asked for before.
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

  BlockedCycle circle() const {
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
  std::set<Message> sent_;
  std::set<std::pair<int, std::pair<Message, int>>> expected_;  // rank, (message, its sender)
};

}  // namespace

BlockedCycle find_lazy_pair_cycle(const Schedule& schedule) {
  return LazyPairs(schedule).run();
}

}  // namespace plumbline
