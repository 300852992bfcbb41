#include "analysis/memory/receives_ahead.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kCopies = 3;  // the first, the last and one between

bool is_receive(const Action& action) {
  return is_transfer(action.type) && !is_send(action.type);
}

/// Places in `actions` in the order in which they take memory. `pairs`: overlapped pairs run together.
std::vector<std::size_t> order_of(const std::vector<Action>& actions, bool pairs) {
  std::vector<std::size_t> order;
  order.reserve(actions.size());
  std::optional<std::size_t> computation;  // the last one's place in `order`
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (computation && is_receive(actions[i])) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>((*computation)++), i);
      continue;
    }
    const bool second = pairs && i > 0 && actions[i - 1].overlaps_next;
    if (!is_transfer(actions[i].type) && !second) computation = order.size();
    order.push_back(i);
  }
  return order;
}

}  // namespace

RepeatedSchedule with_receives_ahead(const RepeatedSchedule& step, bool pairs) {
  Schedule schedule = step.repeats() ? with_copies(step, std::min(step.copies, kCopies)) : step.once;
  for (std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> moved;
    moved.reserve(actions.size());
    for (const std::size_t i : order_of(actions, pairs)) moved.push_back(actions[i]);
    actions = std::move(moved);
  }
  return schedule;
}

void in_order_of_actions(const std::vector<Action>& actions, bool pairs,
                         std::vector<MemorySample>& timeline) {
  const std::vector<std::size_t> order = order_of(actions, pairs);
  std::vector<MemorySample> seen(timeline.size());
  for (std::size_t i = 0; i < order.size(); ++i) seen[order[i]] = timeline[i];
  bool computed = false;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (computed && is_receive(actions[i])) seen[i] = {seen[i - 1].after, seen[i - 1].after};
    computed = computed || !is_transfer(actions[i].type);
  }
  timeline = std::move(seen);
}

}  // namespace plumbline
