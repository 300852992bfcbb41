// The bodies of DependencyWalk's inner loop; included by core/schedule/dependency_walk.hpp only.
#pragma once

#include "core/schedule/dependency_walk.hpp"

namespace plumbline {

inline int DependencyWalk::members(Signal signal) const {
  if (signal <= Signal::sent_teacher) return 2;
  if (signal != Signal::embedding_meet) return schedule_.ranks;
  return schedule_.crosses_ranks(0, schedule_.stages_per_route() - 1) ? 2 : 1;
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
      needs.list[static_cast<std::size_t>(needs.count++)] = need_of(*hop_of(action));
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::send_teacher:
      if (blocking()) needs.list[static_cast<std::size_t>(needs.count++)] = need_of(*hop_of(action));
      break;
    case ActionType::vocab_forward: {
      const int last = (schedule_.route_of(m) + 1) * schedule_.stages_per_route() - 1;
      needs.add(Signal::activation, at(last, m));
      if (schedule_.vocab == VocabPasses::interlaced) needs.add(Signal::vocab_meet_s, index);
      break;
    }
    case ActionType::vocab_backward:
      needs.add(Signal::vocab_scores, index);
      // Two buffers for the sums over the ranks, in turn (bench/training/vocabulary.md).
      if (m >= 2 && schedule_.vocab != VocabPasses::one_barrier) {
        needs.add(Signal::vocab_gradient, index - 2);
      }
      if (schedule_.vocab == VocabPasses::interlaced) needs.add(Signal::vocab_meet_t, index);
      break;
    case ActionType::input_forward:
      if (m > 0) needs.add(Signal::input, index - 1);
      break;
    case ActionType::input_backward:
      needs.add(Signal::gradient, at(schedule_.route_of(m) * schedule_.stages_per_route(), m));
      if (m > 0) needs.add(Signal::input_gradient, index - 1);
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
    need = need_of(*hop_of(action));
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
      if (!blocking()) publish(need_of(*hop_of(action)), node);
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
    case ActionType::input_backward:
      arrive(visitor, {Signal::input_gradient, index}, node);
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
