// Visits the actions of a schedule in an order in which everything an action waits for comes before it. The
// one place that knows which action waits for which; validation, transfers and the simulator share it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule.hpp"

namespace plumbline {

/// What an action may wait for besides its predecessor on the rank. The first group holds one entry per
/// (stage, micro-batch), the second one per micro-batch, the third one per step.
enum class Signal : std::uint8_t {
  activation,      // F done
  gradient,        // B or I done
  teacher,         // TF done
  taken_forward,   // RECV_F done
  taken_backward,  // RECV_B done
  sent_forward,    // SEND_F issued; or, unless posted, both sides have come to it
  sent_backward,   // the same for SEND_B
  sent_teacher,    // the same for SEND_TF
  vocab_scores,    // S done on every rank
  vocab_gradient,  // T done on every rank
  vocab_meet_s,    // every rank has come to S (interlaced)
  vocab_meet_t,    // every rank has come to T (interlaced)
  input,           // IF done on every rank
  embedding_meet,  // first and last rank have come to ARE
  end_meet,        // every rank has come to OPT
};
constexpr int kSignals = 15;

/// How a rank passes a SEND or RECV.
enum class TransferSemantics : std::uint8_t {
  posted,       // SEND returns at once, RECV waits for the SEND
  synchronous,  // both wait until the other side has come to its half
  grouped,      // neighbouring transfers of a rank start together; the group waits for all of them
};

struct WalkOptions {
  TransferSemantics transfers = TransferSemantics::posted;
  /// A compute action waits until the receiver has taken what the same stage sent before in the same
  /// direction: one send buffer per stage and direction, as in core/executor.hpp. Needs explicit transfers.
  bool one_send_buffer = false;
};

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

  /// Visits until nothing more can run. Returns whether every action was visited. The visitor gives numbers
  /// of its own (nodes) to what it is shown and receives them back as dependencies; -1 means none:
  ///   int wait(int rank, int node)              the rank waits for `node`; returns a node of that moment
  ///   int place(int rank, int position, int node)  the action runs after its predecessor and `node`; returns
  ///   the
  ///                                             node at which its result is ready for others
  ///   std::pair<int, int> place_pair(int rank, int position, int node)  the same for an overlapped pair
  ///   int join(Signal, int index, int node)     one member's arrival at a meeting of many; returns the node
  ///   of
  ///                                             the meeting so far
  template <class Visitor>
  bool run(Visitor& visitor);

  /// Unless transfers are posted: is the other side of this SEND or RECV still to come?
  bool half_open(const Action& half) { return entry(hop_of(half)) < 0; }
  /// Lets a waiting SEND or RECV happen as if the other side had come to it; run() may then go on.
  template <class Visitor>
  void meet_now(Visitor& visitor, const Action& half) {
    arrive(visitor, hop_of(half), kAbsent);
  }

  /// Where each rank stopped: the position of the first action that was not visited.
  const std::vector<std::uint32_t>& stopped_at() const { return cursor_; }

  /// What the action at which `rank` stopped still waits for.
  Need unmet(int rank);

 private:
  static constexpr std::int32_t kAbsent = -1;
  struct Needs {
    std::array<Need, 3> list;
    int count = 0;
    void add(Signal signal, std::int32_t index) { list[static_cast<std::size_t>(count++)] = {signal, index}; }
  };

  /// What is asked about a stage for every action.
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
  static bool is_transfer(ActionType type) { return is_send(type) || is_receive(type); }
  Need hop_of(const Action& action) const;
  /// Last position of what runs together with the action at `first`: an overlapped pair or a group of
  /// transfers.
  std::uint32_t span_end(const std::vector<Action>& actions, std::uint32_t first) const;
  Needs needs_of(const Action& action) const;
  void add_send_buffer_needs(const Action& action, Needs& needs) const;
  /// The meeting an action takes part in by arriving, if any.
  bool meeting_of(const Action& action, Need& need) const;
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

  const Schedule& schedule_;
  WalkOptions options_;
  bool transfers_ = false;
  bool plain_ = false;  // F, B, I, W wait for their neighbours only
  std::vector<StageFacts> facts_;
  std::array<bool, kActionTypes> present_{};
  std::array<std::size_t, kSignals> offset_{};
  std::vector<std::int32_t> table_;     // node, kAbsent, or -2 - rank of the latest waiter
  std::vector<std::int32_t> arrivals_;  // how many have come to each meeting; table_ from meetings_begin_ on
  std::size_t meetings_begin_ = 0;
  std::vector<std::int32_t> next_waiter_;
  std::vector<std::uint32_t> cursor_;
  std::vector<std::uint32_t> progress_;  // arrivals made and needs met at the cursor
  std::vector<std::int32_t> last_sent_;  // one_send_buffer: micro-batch + 1 by (stage, direction)
  std::vector<std::int32_t> queue_;      // ranks that may go on; a ring
  std::size_t head_ = 0;
  std::size_t queued_ = 0;
};

inline int DependencyWalk::members(Signal signal) const {
  if (signal <= Signal::sent_teacher) return 2;
  if (signal != Signal::embedding_meet) return schedule_.ranks;
  return schedule_.crosses_ranks(0, schedule_.stages_per_route() - 1) ? 2 : 1;
}

/// The transfer that a SEND or RECV is one half of, under the sending stage.
inline DependencyWalk::Need DependencyWalk::hop_of(const Action& action) const {
  const int stage = action.stage;
  const std::uint32_t m = action.microbatch;
  switch (action.type) {
    case ActionType::send_forward:
      return {Signal::sent_forward, at(stage, m)};
    case ActionType::receive_forward:
      return {Signal::sent_forward, at(stage - 1, m)};
    case ActionType::send_backward:
      return {Signal::sent_backward, at(stage, m)};
    case ActionType::receive_backward:
      return {Signal::sent_backward, at(stage + 1, m)};
    case ActionType::send_teacher:
      return {Signal::sent_teacher, at(stage, m)};
    default:
      return {Signal::sent_teacher, at(stage - 1, m)};
  }
}

inline DependencyWalk::Needs DependencyWalk::needs_of(const Action& action) const {
  Needs needs;
  const int stage = action.stage;
  const std::uint32_t m = action.microbatch;
  const auto index = static_cast<std::int32_t>(m);
  if (options_.one_send_buffer) add_send_buffer_needs(action, needs);
  switch (action.type) {
    case ActionType::forward:
      if (facts(action).takes_activation) needs.add(Signal::activation, at(stage - 1, m));
      if (facts(action).first && present_[static_cast<std::size_t>(ActionType::input_forward)]) {
        needs.add(Signal::input, index);
      }
      break;
    case ActionType::backward:
    case ActionType::backward_input:
      if (facts(action).takes_gradient) needs.add(Signal::gradient, at(stage + 1, m));
      if (facts(action).last && schedule_.vocab == VocabPasses::one_barrier)
        needs.add(Signal::vocab_scores, index);
      if (facts(action).last &&
          (schedule_.vocab == VocabPasses::two_barriers || schedule_.vocab == VocabPasses::interlaced)) {
        needs.add(Signal::vocab_gradient, index);
      }
      break;
    case ActionType::teacher_forward:
      if (facts(action).takes_activation) {
        needs.add(schedule_.joint_teacher ? Signal::activation : Signal::teacher, at(stage - 1, m));
      }
      break;
    case ActionType::receive_forward:
    case ActionType::receive_backward:
    case ActionType::receive_teacher:
      needs.list[static_cast<std::size_t>(needs.count++)] = hop_of(action);
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::send_teacher:
      if (blocking()) needs.list[static_cast<std::size_t>(needs.count++)] = hop_of(action);
      break;
    case ActionType::vocab_forward: {
      const int last = (schedule_.route_of(m) + 1) * schedule_.stages_per_route() - 1;
      needs.add(Signal::activation, at(last, m));
      if (schedule_.vocab == VocabPasses::interlaced) needs.add(Signal::vocab_meet_s, index);
      break;
    }
    case ActionType::vocab_backward:
      needs.add(Signal::vocab_scores, index);
      if (schedule_.vocab == VocabPasses::interlaced) needs.add(Signal::vocab_meet_t, index);
      break;
    case ActionType::input_backward:
      needs.add(Signal::gradient, at(schedule_.route_of(m) * schedule_.stages_per_route(), m));
      break;
    case ActionType::reduce_embedding:
      needs.add(Signal::embedding_meet, 0);
      break;
    case ActionType::optimizer:
      if (schedule_.barrier_at_end) needs.add(Signal::end_meet, 0);
      break;
    default:
      break;
  }
  return needs;
}

inline bool DependencyWalk::meeting_of(const Action& action, Need& need) const {
  const auto index = static_cast<std::int32_t>(action.microbatch);
  if (action.type == ActionType::optimizer && schedule_.barrier_at_end) {
    need = {Signal::end_meet, 0};
  } else if (action.type == ActionType::reduce_embedding) {
    need = {Signal::embedding_meet, 0};
  } else if (schedule_.vocab == VocabPasses::interlaced && action.type == ActionType::vocab_forward) {
    need = {Signal::vocab_meet_s, index};
  } else if (schedule_.vocab == VocabPasses::interlaced && action.type == ActionType::vocab_backward) {
    need = {Signal::vocab_meet_t, index};
  } else if (blocking() && is_transfer(action.type)) {
    need = hop_of(action);
  } else {
    return false;
  }
  return true;
}

inline void DependencyWalk::publish(Need need, std::int32_t node) {
  wake(entry(need), node);
}

/// Fills a table entry and lets those who wait for it go on.
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
  const int stage = action.stage;
  const std::uint32_t m = action.microbatch;
  const auto index = static_cast<std::int32_t>(m);
  switch (action.type) {
    case ActionType::forward:
      publish({Signal::activation, at(stage, m)}, node);
      break;
    case ActionType::backward:
    case ActionType::backward_input:
      publish({Signal::gradient, at(stage, m)}, node);
      break;
    case ActionType::teacher_forward:
      publish({Signal::teacher, at(stage, m)}, node);
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::send_teacher:
      if (!blocking()) publish(hop_of(action), node);
      if (options_.one_send_buffer && action.type != ActionType::send_teacher) {
        const bool forward = action.type == ActionType::send_forward;
        last_sent_[static_cast<std::size_t>(stage) * 2 + (forward ? 0 : 1)] = index + 1;
      }
      break;
    case ActionType::receive_forward:
      if (options_.one_send_buffer) publish({Signal::taken_forward, at(stage, m)}, node);
      break;
    case ActionType::receive_backward:
      if (options_.one_send_buffer) publish({Signal::taken_backward, at(stage, m)}, node);
      break;
    case ActionType::vocab_forward:
      arrive(visitor, {Signal::vocab_scores, index}, node);
      break;
    case ActionType::vocab_backward:
      arrive(visitor, {Signal::vocab_gradient, index}, node);
      break;
    case ActionType::input_forward:
      arrive(visitor, {Signal::input, index}, node);
      break;
    default:
      break;
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
  // What has been done here on an earlier try is counted in progress_ and skipped.
  std::uint32_t step = 0;
  for (std::uint32_t position = first; position <= last; ++position) {
    Need meeting;
    if (meeting_of(actions[position], meeting) && step++ == progress_[r]) {
      ++progress_[r];
      arrive(visitor, meeting, visitor.wait(rank, kAbsent));
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
