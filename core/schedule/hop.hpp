// The message whose two halves are a SEND and its RECV: the one place that derives senders, receivers and
// payloads.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Content of a message.
enum class Payload : std::uint8_t {
  activation,  // from F, for the F of the next stage; a joint message also carries the teacher's
  gradient,    // from B or I, for the B or I of the previous stage
  teacher,     // from TF, for the TF of the next stage
};
constexpr int kPayloads = 3;
constexpr std::array<Payload, kPayloads> kAllPayloads = {Payload::activation, Payload::gradient,
                                                         Payload::teacher};

/// From the stage that makes a payload to the stage that uses it.
constexpr int step_of(Payload payload) {
  return payload == Payload::gradient ? -1 : 1;
}

/// Payload that an action makes and uses (F, B, I, TF), sends or receives; nothing for the others.
constexpr std::optional<Payload> payload_of(ActionType type) {
  switch (type) {
    case ActionType::forward:
    case ActionType::send_forward:
    case ActionType::receive_forward:
      return Payload::activation;
    case ActionType::backward:
    case ActionType::backward_input:
    case ActionType::send_backward:
    case ActionType::receive_backward:
      return Payload::gradient;
    case ActionType::teacher_forward:
    case ActionType::send_teacher:
    case ActionType::receive_teacher:
      return Payload::teacher;
    default:
      return std::nullopt;
  }
}

/// F, B and I, or TF: each makes the payload on the sending stage and uses it on the receiving one.
std::span<const ActionType> computing(Payload payload);
constexpr ActionType sending(Payload payload) {
  constexpr std::array<ActionType, kPayloads> kSends = {ActionType::send_forward, ActionType::send_backward,
                                                        ActionType::send_teacher};
  return kSends[static_cast<std::size_t>(payload)];
}
constexpr ActionType receiving(Payload payload) {
  constexpr std::array<ActionType, kPayloads> kReceives = {
      ActionType::receive_forward, ActionType::receive_backward, ActionType::receive_teacher};
  return kReceives[static_cast<std::size_t>(payload)];
}

/// One message between neighbouring stages. Its route is Schedule::route_of(microbatch), its ranks
/// channel_of.
struct Hop {
  int from = 0;  // stage that sends
  Payload payload = Payload::activation;
  std::uint32_t microbatch = 0;

  int to() const { return from + step_of(payload); }  // stage that receives
  friend bool operator==(const Hop&, const Hop&) = default;
  friend auto operator<=>(const Hop&, const Hop&) = default;  // NOLINT(modernize-use-nullptr)
};

/// The message whose half is `half`, a SEND or RECV. Its stages need not exist unless the schedule passed
/// check_ranges().
inline Hop hop_of_transfer(const Action& half) {
  const Payload payload = *payload_of(half.type);
  return {is_send(half.type) ? half.stage : half.stage - step_of(payload), payload, half.microbatch};
}
/// The same; nothing for other actions.
inline std::optional<Hop> hop_of(const Action& action) {
  if (!is_transfer(action.type)) return std::nullopt;
  return hop_of_transfer(action);
}

/// The two halves of a message.
Action send_of(const Hop& hop);
Action receive_of(const Hop& hop);

/// Tells the messages of a stage apart by their payload; below stages × kPayloads.
constexpr int tag_of(const Hop& hop) {
  return hop.from * kPayloads + static_cast<int>(hop.payload);
}

/// Messages from one pipeline rank to another.
struct Channel {
  int from = 0;
  int to = 0;
  friend bool operator==(const Channel&, const Channel&) = default;
  friend auto operator<=>(const Channel&, const Channel&) = default;  // NOLINT(modernize-use-nullptr)
};

/// The ranks that exchange a message. Throws std::out_of_range where one of its stages does not exist.
inline Channel channel_of(const Schedule& schedule, const Hop& hop) {
  return {schedule.rank_of_stage.at(static_cast<std::size_t>(hop.from)),
          schedule.rank_of_stage.at(static_cast<std::size_t>(hop.to()))};
}

/// The message in which a payload leaves or reaches `stage`; nothing if the route ends or both stages are on
/// one rank.
std::optional<Hop> hop_from(const Schedule& schedule, int stage, Payload payload, std::uint32_t microbatch);
std::optional<Hop> hop_to(const Schedule& schedule, int stage, Payload payload, std::uint32_t microbatch);

/// The message with the result of a computing action; nothing for a teacher's forward whose activation
/// travels in the student's message.
std::optional<Hop> hop_after(const Schedule& schedule, const Action& action);

}  // namespace plumbline
