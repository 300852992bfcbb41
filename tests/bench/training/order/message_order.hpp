// Requests of every rank to the others in a step, in order, and whether they can wait for each other for
// ever. It is a step of the training code itself, each rank alone in this process, with nothing computed and
// nothing sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline::training {

/// One call of a rank to its communicator.
struct OrderedCall {
  enum class Kind { collective, send, receive, wait };
  Kind kind = Kind::wait;
  std::string name;         // of a collective: "all_to_all over context_heads", "reduce over tensor, root 3"
  std::vector<int> peers;   // of a collective its members, of a message the other end
  int tag = 0;              // of a message
  std::int64_t bytes = 0;   // of the whole collective, of the message; 0 where members have different numbers
  std::int64_t ticket = 0;  // a wait refers to the rank's call with the same number
  std::int64_t after = 0;   // it starts by itself when the call with this number is done; 0: at once
  std::string own_order{};  // of a collective whose group has a communicator of its own: the group
  bool on_host = false;     // its memory is the host's
};
using RankCalls = std::vector<OrderedCall>;

/// The calls of a step, by world rank.
std::vector<RankCalls> calls_of_step(const RunConfig& config, const Schedule& schedule);

/// Place where the ranks hang, or a meeting of calls that do not match: one line; empty when all get to the
/// end. A wait ends when the other end of the message has been posted, or all members have started the
/// collective. The n-th call of a group meets the n-th of its other members, the n-th message between two
/// ranks with one tag the n-th receive.
std::string find_hang(const std::vector<RankCalls>& ranks);

}  // namespace plumbline::training
