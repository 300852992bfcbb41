#include "bench/show/report/critical_chain.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// An event's start may lie this far before the end of its dependency: clocks are read one after another.
constexpr double kClockSlack = 1e-6;
/// Sends overlap later events, so a dependency may lie a few places back.
constexpr std::size_t kLookBack = 8;

bool is_meeting(ActionType type) {
  return type == ActionType::reduce_gradients || type == ActionType::reduce_embedding ||
         type == ActionType::optimizer;
}

class Events {
 public:
  explicit Events(const Trace& trace) : trace_(trace) {
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < trace.ranks[rank].size(); ++i) {
        const Action& action = trace.ranks[rank][i].action;
        places_.try_emplace(key(action.type, action.stage, action.microbatch), EventAt{rank, i});
        if (is_meeting(action.type)) meetings_.push_back({rank, i});
        if (is_vocabulary(action.type)) passes_[key(action.type, 0, action.microbatch)].push_back({rank, i});
        if (is_vocabulary(action.type) || action.type == ActionType::forward) {
          auto& last = last_passes_.try_emplace(key(action.type, 0, action.microbatch), EventAt{rank, i})
                           .first->second;
          if (at({rank, i}).end > at(last).end) last = {rank, i};
        }
        ++count_;
      }
    }
  }

  const Event& at(EventAt place) const { return trace_.ranks[place.rank][place.position]; }

  std::optional<EventAt> find(ActionType type, int stage, std::uint32_t microbatch) const {
    if (stage < 0) return std::nullopt;
    const auto found = places_.find(key(type, static_cast<std::uint16_t>(stage), microbatch));
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The event that ends last of all.
  std::optional<EventAt> last() const {
    std::optional<EventAt> found;
    for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < trace_.ranks[rank].size(); ++i) {
        if (!found || at({rank, i}).end > at(*found).end) found = EventAt{rank, i};
      }
    }
    return found;
  }

  /// The event before it on its rank that had ended when it began.
  std::optional<EventAt> before(EventAt place) const {
    const Seconds start = at(place).start;
    const std::size_t first = place.position - std::min(place.position, kLookBack);
    std::optional<EventAt> found;
    for (std::size_t i = place.position; i-- > first;) {
      const EventAt other{place.rank, i};
      if (at(other).end.value > start.value + kClockSlack || at(other).start >= at(place).end) continue;
      if (!found || at(other).end > at(*found).end) found = other;
    }
    return found;
  }

  /// The rank that came last to the meeting that `place` waits in.
  EventAt last_to_come(EventAt place) const {
    EventAt last = place;
    for (const EventAt other : meetings_) {
      if (at(other).action.type == at(place).action.type && at(other).start > at(last).start &&
          at(other).start <= at(place).end)
        last = other;
    }
    return last;
  }

  /// The forward or the vocabulary pass of a micro-batch, on any rank, that ended last.
  std::optional<EventAt> last_pass(ActionType type, std::uint32_t microbatch) const {
    const auto found = last_passes_.find(key(type, 0, microbatch));
    return found == last_passes_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The event before a vocabulary pass that all ranks make together: the last to end.
  std::optional<EventAt> before_pass(const Action& action) const {
    std::optional<EventAt> last;
    const auto found = passes_.find(key(action.type, 0, action.microbatch));
    if (found == passes_.end()) return last;
    for (const EventAt place : found->second) {
      const std::optional<EventAt> other = before(place);
      if (other && (!last || at(*other).end > at(*last).end)) last = other;
    }
    return last;
  }

  std::size_t count() const { return count_; }

 private:
  static bool is_vocabulary(ActionType type) {
    return type == ActionType::vocab_forward || type == ActionType::vocab_backward;
  }
  static std::uint64_t key(ActionType type, std::uint16_t stage, std::uint32_t microbatch) {
    return static_cast<std::uint64_t>(type) << 48 | static_cast<std::uint64_t>(stage) << 32 | microbatch;
  }
  const Trace& trace_;
  std::unordered_map<std::uint64_t, EventAt> places_;
  std::unordered_map<std::uint64_t, EventAt> last_passes_;
  std::unordered_map<std::uint64_t, std::vector<EventAt>> passes_;
  std::vector<EventAt> meetings_;
  std::size_t count_ = 0;
};

/// Actions of other stages or ranks that an action depends on.
std::vector<std::optional<EventAt>> producers(const Events& events, const Action& action) {
  using enum ActionType;
  const int stage = action.stage;
  const std::uint32_t m = action.microbatch;
  std::vector<std::optional<EventAt>> found;
  if (const auto payload = payload_of(action.type); payload && !is_send(action.type)) {
    const int from = stage - step_of(*payload);
    if (is_receive(action.type)) found.push_back(events.find(sending(*payload), from, m));
    for (const ActionType type : computing(*payload)) found.push_back(events.find(type, from, m));
  }
  switch (action.type) {
    case forward:
      found.push_back(events.find(teacher_forward, stage, m));
      break;
    case teacher_forward:
      found.push_back(events.find(forward, stage - 1, m));
      break;
    case backward:
    case backward_input:
      found.insert(found.end(), {events.find(forward, stage, m), events.last_pass(vocab_backward, m),
                                 events.last_pass(vocab_forward, m)});
      break;
    case vocab_forward:
      found.insert(found.end(), {events.last_pass(forward, m), events.before_pass(action)});
      break;
    case vocab_backward:
      found.insert(found.end(), {events.last_pass(vocab_forward, m), events.before_pass(action)});
      break;
    default:
      break;
  }
  return found;
}

}  // namespace

std::vector<EventAt> critical_chain(const Trace& trace) {
  const Events events(trace);
  std::vector<EventAt> chain;
  for (std::optional<EventAt> place = events.last(); place;) {
    chain.push_back(*place);
    const Event& event = events.at(*place);
    if (is_meeting(event.action.type)) {
      const EventAt last = events.last_to_come(*place);
      if (last != *place) {
        chain.push_back(last);
        place = last;
      }
    }
    std::optional<EventAt> next = events.before(*place);
    const Event& here = events.at(*place);
    for (const auto& producer : producers(events, here.action)) {
      // A receive lasts while it waits; everything else starts when its inputs exist.
      const Seconds latest = is_receive(here.action.type) ? here.end : here.start;
      if (!producer || events.at(*producer).end.value > latest.value + kClockSlack) continue;
      if (events.at(*producer).start >= here.end) continue;
      if (!next || events.at(*producer).end > events.at(*next).end) next = producer;
    }
    // Each step goes back in time; a file whose times form a cycle ends the chain here.
    if (chain.size() > 2 * events.count()) break;
    place = next;
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace plumbline
