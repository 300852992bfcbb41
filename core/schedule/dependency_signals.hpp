// Signals that actions wait for, and semantics of transfers: the vocabulary of
// core/schedule/dependency_walk.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "core/schedule/hop.hpp"

namespace plumbline {

/// Signals that an action may wait for besides its predecessor on the rank. The first group holds one entry
/// per (stage, micro-batch), the second one per micro-batch, the third one per step.
enum class Signal : std::uint8_t {
  activation,      // F done
  gradient,        // B or I done
  teacher,         // TF done
  taken_forward,   // RECV_F done
  taken_backward,  // RECV_B done
  sent_forward,    // SEND_F issued; or, unless posted, both sides have reached it
  sent_backward,   // the same for SEND_B
  sent_teacher,    // the same for SEND_TF
  vocab_scores,    // S done on every rank
  vocab_gradient,  // T done on every rank
  vocab_meet_s,    // every rank has reached S (interlaced)
  vocab_meet_t,    // every rank has reached T (interlaced)
  input,           // IF done on every rank
  input_gradient,  // IB done on every rank
  embedding_meet,  // first and last rank have reached ARE
  end_meet,        // every rank has reached OPT
};
constexpr int kSignals = 16;

constexpr bool per_stage(Signal signal) {
  return signal <= Signal::sent_teacher;
}
constexpr bool per_step(Signal signal) {
  return signal >= Signal::embedding_meet;
}

/// The signal that a message of this kind has been sent, and the payload of a signal's message.
constexpr Signal signal_of(Payload payload) {
  return static_cast<Signal>(static_cast<int>(Signal::sent_forward) + static_cast<int>(payload));
}
constexpr std::optional<Payload> message_of(Signal signal) {
  if (signal < Signal::sent_forward || signal > Signal::sent_teacher) return std::nullopt;
  return static_cast<Payload>(static_cast<int>(signal) - static_cast<int>(Signal::sent_forward));
}

/// Semantics of a SEND or RECV on a rank.
enum class TransferSemantics : std::uint8_t {
  posted,       // SEND returns at once, RECV waits for the SEND
  synchronous,  // both wait until the other side has reached its half
  grouped,      // neighbouring transfers of a rank start together; the group waits for all of them
};

struct WalkOptions {
  TransferSemantics transfers = TransferSemantics::posted;
  /// A compute action waits until the receiver has taken the stage's previous message in the same direction:
  /// one send buffer per stage and direction, as in core/run/executor.hpp. Needs explicit transfers.
  bool one_send_buffer = false;
};

}  // namespace plumbline
