// Requests that a rank can make of a transport, as plain data: a collective, a message, a collective that
// follows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// Checks an argument of a communicator's call: throws Error "all_reduce: the matrix must be contiguous".
inline void expect_argument(bool good, std::string_view call, std::string_view what) {
  if (!good) throw Error(std::string(call).append(": ").append(what));
}

/// A message or collective in progress. Default-constructed: nothing to wait for.
struct Ticket {
  std::int64_t id = -1;
  explicit operator bool() const { return id >= 0; }
};

/// Start and end of a ticket's operation on this rank, on now()'s clock; end 0: not known yet.
struct TicketTimes {
  Seconds start;
  Seconds end;
  /// Of a device, whose host does not wait: its computation waited for the operation; 0: not known.
  Seconds waited_from{};
  Seconds waited_to{};
};

enum class ReduceOp { sum, max };

/// NCCL's names; Communicator's calls of these names define them.
enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all };
/// "all_reduce".
std::string_view name_of(CollectiveKind kind);

/// One collective over a group. A broadcast works in place, as an all-reduce may: input and output are the
/// same.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Group group = Group::world;
  Matrix input;
  Matrix output;
  ReduceOp op = ReduceOp::sum;
  int root = -1;         // of a broadcast or reduce: world rank
  bool awaited = false;  // the rank continues when it is done; else it is started, and wait() finishes it
  /// All-to-all with unequal pieces: elements to and from every member, in group order; empty: all are equal.
  /// Read until it has been started.
  std::span<const std::int64_t> sent{};
  std::span<const std::int64_t> received{};

  bool uneven() const { return !sent.empty(); }

  /// The buffer that Traffic counts: the larger of the two.
  const Matrix& whole() const { return kind == CollectiveKind::all_gather ? output : input; }
  /// One member's share of it; of an all-reduce, a broadcast and a reduce all of it.
  const Matrix& part() const { return kind == CollectiveKind::all_gather ? input : output; }
};

/// One end of a message.
struct PointToPoint {
  enum class Kind { send, receive };
  Kind kind = Kind::send;
  Matrix buffer;
  int peer = -1;  // world rank of the other end
  int tag = 0;
};

/// A collective that starts by itself: once `before` is done and `prepare`, if any, has run.
struct Follower {
  Ticket before;
  std::function<void()> prepare;
  Collective call;
};

}  // namespace plumbline
