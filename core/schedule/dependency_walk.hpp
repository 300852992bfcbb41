// Visits the actions of a schedule in an order in which everything an action waits for comes before it. Who
// waits for whom is defined in core/schedule/dependency_rules.hpp; validation, transfers and the simulator
// share this walk.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/dependency_rules.hpp"
#include "core/schedule/dependency_signals.hpp"
#include "core/schedule/hop.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Throws InputError unless ranks, stages, micro-batches, routes and rank_of_stage agree and every action
/// names a stage of its rank and a micro-batch in range. Message: rank and column of the first bad cell.
void check_ranges(const Schedule& schedule);

/// Does any rank hold explicit SEND or RECV actions?
bool has_transfers(const Schedule& schedule);

class DependencyWalk {
 public:
  /// One thing to wait for: `index` is stage × micro-batches + micro-batch, micro-batch, or 0 (see Signal).
  struct Need {
    Signal signal;
    std::int32_t index;
  };

  /// The schedule must outlive the walk and pass check_ranges().
  DependencyWalk(const Schedule& schedule, WalkOptions options);

  /// Visits until nothing more can run. Returns true if every action was visited. The visitor gives numbers
  /// of its own (nodes) to the visited items and receives them back as dependencies; -1 means none:
  ///   int wait(int rank, int node)              the rank waits for `node`; returns a node of that moment
  ///   int place(int rank, int position, int node)  the action runs after its predecessor and `node`;
  ///                                             returns the node at which its result is ready for others
  ///   std::pair<int, int> place_pair(int rank, int position, int node)  the same for an overlapped pair
  ///   int join(Signal, int index, int node)     one member's arrival at a meeting of many; returns the
  ///                                             node of the meeting so far
  template <class Visitor>
  bool run(Visitor& visitor);

  /// Unless transfers are posted: is the other side of this SEND or RECV still to come?
  bool half_open(const Action& half) { return entry(need_of(hop_of_transfer(half))) < 0; }
  /// Lets a waiting SEND or RECV happen as if the other side had reached it; run() may then continue.
  template <class Visitor>
  void meet_now(Visitor& visitor, const Action& half) {
    arrive(visitor, need_of(hop_of_transfer(half)), kAbsent);
  }

  /// Stop position of each rank: its first action that was not visited.
  const std::vector<std::uint32_t>& stopped_at() const { return cursor_; }

  /// Signal that the action at which `rank` stopped still waits for.
  Need unmet(int rank);

 private:
  static constexpr std::int32_t kAbsent = -1;
  struct Needs {
    std::array<Need, ActionRules::kMostNeeds> list;
    int count = 0;
  };

  /// Facts about a stage, looked up for every action.
  struct StageFacts {
    bool
        takes_activation;  // F waits for the previous stage's F (not for a RECV, not at the start of a route)
    bool takes_gradient;   // B and I wait for the next stage's
    bool first;
    bool last;
    std::size_t activation;  // rows of the stage in the table
    std::size_t gradient;
  };

  std::int32_t at(int stage, std::uint32_t microbatch) const {
    return stage * schedule_.microbatches + static_cast<std::int32_t>(microbatch);
  }
  std::int32_t& entry(Need need) {
    return table_[offset_[static_cast<std::size_t>(need.signal)] + static_cast<std::size_t>(need.index)];
  }
  bool blocking() const { return options_.transfers != TransferSemantics::posted; }
  Need need_of(const Hop& hop) const { return {signal_of(hop.payload), at(hop.from, hop.microbatch)}; }
  /// Last position that runs together with the action at `first`: an overlapped pair or a group of transfers.
  std::uint32_t span_end(const std::vector<Action>& actions, std::uint32_t first) const;
  Needs needs_of(const Action& action) const;
  /// Index of a rule's signal, or kAbsent if the rule does not apply.
  std::int32_t index_of(SignalEntry entry, const Action& action) const;
  /// Last message of `payload` that the stage sent, as the receiver's entry; kAbsent before the first.
  std::int32_t last_sent(int stage, Payload payload) const;
  int members(Signal signal) const;
  void publish(Need need, std::int32_t node);
  void wake(std::int32_t& slot, std::int32_t node);
  template <class Visitor>
  void arrive(Visitor& visitor, Need need, std::int32_t node);
  template <class Visitor>
  void announce(Visitor& visitor, const Action& action, std::int32_t node);
  template <class Visitor>
  bool try_place(Visitor& visitor, int rank);
  template <class Visitor>
  bool try_place_plain(Visitor& visitor, int rank, const Action& action);
  static bool is_plain(const Action& action) {
    return action.type <= ActionType::backward_weight && !action.overlaps_next;
  }
  const StageFacts& facts(const Action& action) const { return facts_[action.stage]; }
  const ActionRules& rules(const Action& action) const {
    return rules_[static_cast<std::size_t>(action.type)];
  }

  const Schedule& schedule_;
  WalkOptions options_;
  bool transfers_ = false;
  bool plain_ = false;  // F, B, I, W wait for their neighbours only
  std::vector<StageFacts> facts_;
  std::array<ActionRules, kActionTypes> rules_{};
  std::array<std::size_t, kSignals> offset_{};
  std::vector<std::int32_t> table_;     // node, kAbsent, or -2 - rank of the latest waiter
  std::vector<std::int32_t> arrivals_;  // how many have reached each meeting; table_ from meetings_begin_ on
  std::size_t meetings_begin_ = 0;
  std::vector<std::int32_t> next_waiter_;
  std::vector<std::uint32_t> cursor_;
  std::vector<std::uint32_t> progress_;  // arrivals made and needs met at the cursor
  std::vector<std::int32_t> last_sent_;  // one_send_buffer: micro-batch + 1 by tag of the message
  std::vector<std::int32_t> queue_;      // ranks that may continue; a ring
  std::size_t head_ = 0;
  std::size_t queued_ = 0;
};

inline int DependencyWalk::members(Signal signal) const {
  if (signal <= Signal::sent_teacher) return 2;
  if (signal != Signal::embedding_meet) return schedule_.ranks;
  return schedule_.crosses_ranks(0, schedule_.stages_per_route() - 1) ? 2 : 1;
}

inline std::int32_t DependencyWalk::index_of(SignalEntry entry, const Action& action) const {
  const int stage = action.stage;
  const std::uint32_t m = action.microbatch;
  const auto index = static_cast<std::int32_t>(m);
  switch (entry) {
    case SignalEntry::own:
      return at(stage, m);
    case SignalEntry::previous_stage:
      return facts(action).takes_activation ? at(stage - 1, m) : kAbsent;
    case SignalEntry::next_stage:
      return facts(action).takes_gradient ? at(stage + 1, m) : kAbsent;
    case SignalEntry::message:
      return need_of(hop_of_transfer(action)).index;
    case SignalEntry::last_sent:
      return last_sent(stage, *payload_of(action.type));
    case SignalEntry::route_begin:
      return at(schedule_.route_of(m) * schedule_.stages_per_route(), m);
    case SignalEntry::route_end:
      return at((schedule_.route_of(m) + 1) * schedule_.stages_per_route() - 1, m);
    case SignalEntry::microbatch:
      return index;
    case SignalEntry::microbatch_on_first:
      return facts(action).first ? index : kAbsent;
    case SignalEntry::microbatch_on_last:
      return facts(action).last ? index : kAbsent;
    case SignalEntry::one_before:
      return index >= 1 ? index - 1 : kAbsent;
    case SignalEntry::two_before:
      return index >= 2 ? index - 2 : kAbsent;
    case SignalEntry::step:
      return 0;
  }
  return kAbsent;
}

inline DependencyWalk::Needs DependencyWalk::needs_of(const Action& action) const {
  Needs needs;
  const ActionRules& mine = rules(action);
  for (std::size_t i = 0; i < mine.need_count; ++i) {
    const std::int32_t index = index_of(mine.needs[i].entry, action);
    if (index >= 0) needs.list[static_cast<std::size_t>(needs.count++)] = {mine.needs[i].signal, index};
  }
  return needs;
}

inline void DependencyWalk::publish(Need need, std::int32_t node) {
  wake(entry(need), node);
}

/// Fills a table entry and lets its waiters continue.
inline void DependencyWalk::wake(std::int32_t& slot, std::int32_t node) {
  std::int32_t waiter = -2 - slot;  // negative: nobody
  slot = node;
  while (waiter >= 0) {
    std::size_t tail = head_ + queued_++;
    if (tail >= queue_.size()) tail -= queue_.size();
    queue_[tail] = waiter;
    waiter = next_waiter_[static_cast<std::size_t>(waiter)];
  }
}

template <class Visitor>
void DependencyWalk::arrive(Visitor& visitor, Need need, std::int32_t node) {
  const std::int32_t meeting = visitor.join(need.signal, need.index, node);
  const std::size_t place =
      offset_[static_cast<std::size_t>(need.signal)] + static_cast<std::size_t>(need.index) - meetings_begin_;
  if (++arrivals_[place] == members(need.signal)) publish(need, meeting);
}

template <class Visitor>
void DependencyWalk::announce(Visitor& visitor, const Action& action, std::int32_t node) {
  const ActionRules& mine = rules(action);
  if (mine.when_done) publish({mine.when_done->signal, index_of(mine.when_done->entry, action)}, node);
  if (mine.when_all_done) {
    arrive(visitor, {mine.when_all_done->signal, index_of(mine.when_all_done->entry, action)}, node);
  }
  if (options_.one_send_buffer && is_send(action.type)) {
    last_sent_[static_cast<std::size_t>(tag_of(hop_of_transfer(action)))] =
        static_cast<std::int32_t>(action.microbatch) + 1;
  }
}

inline std::uint32_t DependencyWalk::span_end(const std::vector<Action>& actions, std::uint32_t first) const {
  std::uint32_t last = first;
  if (options_.transfers == TransferSemantics::grouped && is_transfer(actions[first].type)) {
    while (last + 1 < actions.size() && is_transfer(actions[last + 1].type)) ++last;
  } else if (actions[first].overlaps_next && first + 1 < actions.size()) {
    ++last;
  }
  return last;
}

/// The common case of try_place() without its generality.
template <class Visitor>
bool DependencyWalk::try_place_plain(Visitor& visitor, int rank, const Action& action) {
  const auto r = static_cast<std::size_t>(rank);
  const StageFacts& stage = facts(action);
  const auto row = static_cast<std::size_t>(schedule_.microbatches);
  const bool forward = action.type == ActionType::forward;
  const bool backward = action.type == ActionType::backward || action.type == ActionType::backward_input;
  std::int32_t dependency = kAbsent;
  if (forward ? stage.takes_activation : backward && stage.takes_gradient) {
    std::int32_t& slot =
        table_[(forward ? stage.activation - row : stage.gradient + row) + action.microbatch];
    dependency = slot;
    if (slot < 0) {
      next_waiter_[r] = -2 - slot;
      slot = -2 - rank;
      return false;
    }
  }
  const std::int32_t node = visitor.place(rank, static_cast<int>(cursor_[r]), dependency);
  if (forward || backward)
    wake(table_[(forward ? stage.activation : stage.gradient) + action.microbatch], node);
  ++cursor_[r];
  return true;
}

/// One action, overlapped pair or group of transfers of `rank`. False: it waits and has been noted as a
/// waiter.
template <class Visitor>
bool DependencyWalk::try_place(Visitor& visitor, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const std::vector<Action>& actions = schedule_.actions[r];
  const std::uint32_t first = cursor_[r];
  const std::uint32_t last = span_end(actions, first);
  std::int32_t dependency = kAbsent;
  // Steps done here on an earlier try are counted in progress_ and skipped.
  std::uint32_t step = 0;
  for (std::uint32_t position = first; position <= last; ++position) {
    const Action& action = actions[position];
    const std::optional<SignalRef>& meeting = rules(action).on_arrival;
    if (meeting && step++ == progress_[r]) {
      ++progress_[r];
      arrive(visitor, {meeting->signal, index_of(meeting->entry, action)}, visitor.wait(rank, kAbsent));
    }
  }
  for (std::uint32_t position = first; position <= last; ++position) {
    const Needs needs = needs_of(actions[position]);
    for (int i = 0; i < needs.count; ++i, ++step) {
      if (step < progress_[r]) continue;
      std::int32_t& slot = entry(needs.list[static_cast<std::size_t>(i)]);
      if (dependency >= 0) visitor.wait(rank, dependency);
      dependency = slot;
      if (slot < 0) {
        next_waiter_[r] = -2 - slot;
        slot = -2 - rank;
        return false;
      }
      ++progress_[r];
    }
  }
  if (last == first + 1 && actions[first].overlaps_next) {
    const auto [node, next_node] = visitor.place_pair(rank, static_cast<int>(first), dependency);
    announce(visitor, actions[first], node);
    announce(visitor, actions[last], next_node);
  } else {
    for (std::uint32_t position = first; position <= last; ++position) {
      const std::int32_t node = visitor.place(rank, static_cast<int>(position), dependency);
      dependency = kAbsent;
      announce(visitor, actions[position], node);
    }
  }
  cursor_[r] = last + 1;
  progress_[r] = 0;
  return true;
}

template <class Visitor>
bool DependencyWalk::run(Visitor& visitor) {
  while (queued_ > 0) {
    const std::int32_t rank = queue_[head_];
    if (++head_ == queue_.size()) head_ = 0;
    --queued_;
    const auto r = static_cast<std::size_t>(rank);
    const Action* actions = schedule_.actions[r].data();
    const std::size_t end = schedule_.actions[r].size();
    bool placed = true;
    while (placed && cursor_[r] < end) {
      const Action& action = actions[cursor_[r]];
      placed = plain_ && is_plain(action) ? try_place_plain(visitor, rank, action) : try_place(visitor, rank);
    }
  }
  for (std::size_t r = 0; r < cursor_.size(); ++r) {
    if (cursor_[r] < schedule_.actions[r].size()) return false;
  }
  return true;
}

}  // namespace plumbline
