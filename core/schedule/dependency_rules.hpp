// Signals that actions wait for and give: the table that core/schedule/dependency_walk.hpp follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/schedule/dependency_signals.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Entry of a signal that a rule means, seen from the action. Without such an entry the rule does not apply.
enum class SignalEntry : std::uint8_t {
  own,                  // of the action's stage and micro-batch
  previous_stage,       // of the previous stage of the route, unless a RECV brings its result
  next_stage,           // of the next stage of the route, unless a RECV brings its result
  message,              // of the message that the SEND or RECV is one half of
  last_sent,            // last message of the stage in the direction of the action's result
  route_begin,          // of the first stage of the micro-batch's route
  route_end,            // of its last stage
  microbatch,           // of the micro-batch on all ranks
  microbatch_on_first,  // the same, for an action on the first stage of a route
  microbatch_on_last,   // the same, for an action on the last stage of a route
  one_before,           // of the micro-batch before
  two_before,           // of the one before that
  step,                 // of the step
};

struct SignalRef {
  Signal signal;
  SignalEntry entry;
};

/// Signals that actions of one type wait for and give in one schedule.
struct ActionRules {
  static constexpr std::size_t kMostNeeds = 3;
  std::array<SignalRef, kMostNeeds> needs{};
  std::size_t need_count = 0;
  std::optional<SignalRef> on_arrival;     // given when all that take part have arrived at the action
  std::optional<SignalRef> when_done;      // given when the action is done
  std::optional<SignalRef> when_all_done;  // given when all ranks have done theirs
};

/// The rows of the table that hold for a schedule, by type of action.
std::array<ActionRules, kActionTypes> dependency_rules(const Schedule& schedule, const ActionTypes& present,
                                                       const WalkOptions& options);

/// Is it actions of this type that give the signal, in any schedule? Both halves for that of a message.
bool gives(ActionType type, Signal signal);

}  // namespace plumbline
