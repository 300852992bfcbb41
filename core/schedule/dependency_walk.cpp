#include "core/schedule/dependency_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

[[noreturn]] void reject(std::size_t rank, std::size_t position, const Action& action,
                         const std::string& why) {
  throw InputError(
      fmt::format("schedule: rank {}, column {}: {}: {}", rank, position + 1, to_string(action), why));
}

void check_shape(const Schedule& schedule) {
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  if (schedule.ranks < 1 || schedule.stages < 1 || schedule.microbatches < 1 || schedule.routes < 1 ||
      schedule.stages > std::numeric_limits<std::uint16_t>::max()) {
    throw InputError(
        fmt::format("schedule: {} ranks, {} stages, {} micro-batches, {} routes; expected at least 1 of "
                    "each, at most {} stages",
                    schedule.ranks, schedule.stages, schedule.microbatches, schedule.routes,
                    std::numeric_limits<std::uint16_t>::max()));
  }
  if (schedule.stages % schedule.routes != 0 || schedule.microbatches % schedule.routes != 0) {
    throw InputError(fmt::format("schedule: {} stages and {} micro-batches do not divide into {} routes",
                                 schedule.stages, schedule.microbatches, schedule.routes));
  }
  if (schedule.actions.size() != ranks ||
      schedule.rank_of_stage.size() != static_cast<std::size_t>(schedule.stages)) {
    throw InputError(
        fmt::format("schedule: {} action lists and {} placed stages; expected {} (ranks) and {} (stages)",
                    schedule.actions.size(), schedule.rank_of_stage.size(), schedule.ranks, schedule.stages));
  }
  // Tables over (stage, micro-batch) are indexed with 32 bits.
  if (static_cast<std::int64_t>(schedule.stages) * schedule.microbatches >
      std::numeric_limits<std::int32_t>::max() / 4) {
    throw InputError(fmt::format("schedule: {} stages × {} micro-batches is more than {} cells",
                                 schedule.stages, schedule.microbatches,
                                 std::numeric_limits<std::int32_t>::max() / 4));
  }
  for (std::size_t stage = 0; stage < schedule.rank_of_stage.size(); ++stage) {
    const int rank = schedule.rank_of_stage[stage];
    if (rank < 0 || rank >= schedule.ranks) {
      throw InputError(
          fmt::format("schedule: stage {} is on rank {}; expected 0 to {}", stage, rank, schedule.ranks - 1));
    }
  }
}

}  // namespace

void check_ranges(const Schedule& schedule) {
  check_shape(schedule);
  std::vector<std::uint8_t> first(static_cast<std::size_t>(schedule.stages));
  std::vector<std::uint8_t> last(first.size());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    first[static_cast<std::size_t>(stage)] = schedule.first_of_route(stage);
    last[static_cast<std::size_t>(stage)] = schedule.last_of_route(stage);
  }
  const auto microbatches = static_cast<std::uint32_t>(schedule.microbatches);
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    const std::vector<Action>& actions = schedule.actions[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (static_cast<int>(action.type) >= kActionTypes) {
        throw InputError(fmt::format("schedule: rank {}, column {}: unknown action type {}", rank, i + 1,
                                     static_cast<int>(action.type)));
      }
      if (action.stage >= schedule.stages) {
        reject(rank, i, action, fmt::format("stage out of range, expected 0 to {}", schedule.stages - 1));
      }
      if (action.microbatch >= microbatches) {
        reject(rank, i, action,
               fmt::format("micro-batch out of range, expected 0 to {}", schedule.microbatches - 1));
      }
      const int owner = schedule.rank_of_stage[action.stage];
      if (owner != static_cast<int>(rank)) {
        reject(rank, i, action, fmt::format("stage {} belongs to rank {}", action.stage, owner));
      }
      const std::optional<Hop> hop = hop_of(action);
      if (hop && (std::max(hop->from, hop->to()) == action.stage ? first : last)[action.stage] != 0) {
        reject(rank, i, action, "there is no such neighbouring stage to exchange with");
      }
      if (action.overlaps_next && i + 1 == actions.size()) {
        reject(rank, i, action, "overlaps the next action, but is the last one of the rank");
      }
    }
  }
}

bool has_transfers(const Schedule& schedule) {
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (is_transfer(action.type)) return true;
    }
  }
  return false;
}

DependencyWalk::DependencyWalk(const Schedule& schedule, WalkOptions options)
    : schedule_(schedule), options_(options) {
  const ActionTypes present = types_in(schedule);
  rules_ = dependency_rules(schedule, present, options);
  const auto has = [&](ActionType type) { return present[static_cast<std::size_t>(type)]; };
  const bool forward = has(ActionType::send_forward) || has(ActionType::receive_forward);
  const bool backward = has(ActionType::send_backward) || has(ActionType::receive_backward);
  const bool teacher = has(ActionType::send_teacher) || has(ActionType::receive_teacher);
  transfers_ = forward || backward || teacher;

  const auto cells =
      static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.microbatches);
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  std::size_t size = 0;
  const auto reserve = [&](Signal signal, bool used, std::size_t entries) {
    offset_[static_cast<std::size_t>(signal)] = size;
    if (used) size += entries;
  };
  reserve(Signal::activation, true, cells);
  reserve(Signal::gradient, true, cells);
  reserve(Signal::teacher, has(ActionType::teacher_forward), cells);
  reserve(Signal::taken_forward, forward && options.one_send_buffer, cells);
  reserve(Signal::taken_backward, backward && options.one_send_buffer, cells);
  if (blocking()) meetings_begin_ = size;
  reserve(Signal::sent_forward, forward, cells);
  reserve(Signal::sent_backward, backward, cells);
  reserve(Signal::sent_teacher, teacher, cells);
  if (!blocking()) meetings_begin_ = size;
  const bool vocab = schedule.vocab != VocabPasses::none || has(ActionType::vocab_forward) ||
                     has(ActionType::vocab_backward);
  const bool interlaced = schedule.vocab == VocabPasses::interlaced;
  reserve(Signal::vocab_scores, vocab, microbatches);
  reserve(Signal::vocab_gradient, vocab, microbatches);
  reserve(Signal::vocab_meet_s, interlaced, microbatches);
  reserve(Signal::vocab_meet_t, interlaced, microbatches);
  reserve(Signal::input, has(ActionType::input_forward), microbatches);
  reserve(Signal::input_gradient, has(ActionType::input_backward), microbatches);
  reserve(Signal::embedding_meet, true, 1);
  reserve(Signal::end_meet, true, 1);
  table_.assign(size, kAbsent);
  plain_ = !options.one_send_buffer && !vocab && !has(ActionType::input_forward) &&
           !has(ActionType::input_backward);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const bool first = schedule.first_of_route(stage);
    const bool last = schedule.last_of_route(stage);
    const std::size_t row = static_cast<std::size_t>(stage) * microbatches;
    facts_.push_back({!first && (!transfers_ || !schedule.crosses_ranks(stage, stage - 1)),
                      !last && (!transfers_ || !schedule.crosses_ranks(stage, stage + 1)), first, last,
                      offset_[static_cast<std::size_t>(Signal::activation)] + row,
                      offset_[static_cast<std::size_t>(Signal::gradient)] + row});
  }
  arrivals_.assign(size - meetings_begin_, 0);

  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  next_waiter_.assign(ranks, kAbsent);
  cursor_.assign(ranks, 0);
  progress_.assign(ranks, 0);
  if (options.one_send_buffer) last_sent_.assign(static_cast<std::size_t>(schedule.stages) * kPayloads, 0);
  queue_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) queue_[rank] = static_cast<std::int32_t>(rank);
  queued_ = ranks;
}

DependencyWalk::Need DependencyWalk::unmet(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const std::vector<Action>& actions = schedule_.actions[r];
  const std::uint32_t last = span_end(actions, cursor_[r]);
  for (std::uint32_t i = cursor_[r]; i <= last; ++i) {
    const Needs needs = needs_of(actions[i]);
    for (int n = 0; n < needs.count; ++n) {
      const Need need = needs.list[static_cast<std::size_t>(n)];
      if (entry(need) < 0) return need;
    }
  }
  return {Signal::end_meet, 0};
}

std::int32_t DependencyWalk::last_sent(int stage, Payload payload) const {
  const Hop hop{stage, payload, 0};
  const std::int32_t sent = last_sent_[static_cast<std::size_t>(tag_of(hop))];
  return sent > 0 ? at(hop.to(), static_cast<std::uint32_t>(sent - 1)) : kAbsent;
}

}  // namespace plumbline
