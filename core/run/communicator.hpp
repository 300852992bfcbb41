// Messages between ranks: point-to-point and collectives over the groups of a Layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// What is asked of a communicator must hold: throws Error "all_reduce: the matrix must be contiguous".
inline void expect_argument(bool good, const char* call, const char* what) {
  if (!good) throw Error(std::string(call) + ": " + what);
}

enum class ReduceOp { sum, max };

/// A message or collective under way. Default-constructed: nothing to wait for.
struct Ticket {
  std::int64_t id = -1;
  explicit operator bool() const { return id >= 0; }
};

/// When what a ticket stands for was started on this rank and when it was done, on now()'s clock; end 0: not
/// known yet.
struct TicketTimes {
  Seconds start;
  Seconds end;
};

/// Collectives of one group, counted where they were asked for: whole buffers, before any algorithm cuts
/// them.
struct GroupTraffic {
  std::int64_t calls = 0;
  Bytes all_reduced;       // of the reduced buffers
  Bytes all_gathered;      // of the gathered outputs
  Bytes reduce_scattered;  // of the inputs
  Bytes broadcast;         // of the buffers

  /// One call that moved `bytes`; a call without any is none.
  void add(Bytes GroupTraffic::*kind, Bytes bytes) {
    if (bytes.value == 0) return;
    ++calls;
    this->*kind += bytes;
  }
};

/// What this rank handed to the transport. A group of one moves nothing and is not counted.
struct Traffic {
  std::int64_t messages_sent = 0;
  Bytes point_to_point_sent;
  std::array<GroupTraffic, kGroups> groups{};
  const GroupTraffic& of(Group group) const { return groups[static_cast<std::size_t>(group)]; }
  GroupTraffic& of(Group group) { return groups[static_cast<std::size_t>(group)]; }
};

/// One rank's end. All matrices must be contiguous. Calls that name a group are collective over it. Failures
/// of the transport are thrown as Error with the call and the transport's own words.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const Layout& layout() const = 0;
  virtual int rank() const = 0;  // world rank

  /// Sum or maximum over the group, in place, same result bit for bit on every member. fp32, bf16 (added in
  /// fp32, rounded once per hop), int32.
  virtual void all_reduce(Group group, Matrix buffer, ReduceOp op) = 0;
  /// The same, started now and finished by wait(); `buffer` must not be touched in between.
  virtual Ticket start_all_reduce(Group group, Matrix buffer, ReduceOp op) = 0;
  /// output holds the members' inputs one after another in group order. `input` may be this rank's own place
  /// in `output` (in place), or must not overlap it.
  virtual void all_gather(Group group, Matrix input, Matrix output) = 0;
  /// The same, started now and finished by wait().
  virtual Ticket start_all_gather(Group group, Matrix input, Matrix output) = 0;
  /// input is cut in as many equal pieces as members; output is the sum of everybody's piece of this rank.
  /// They must not overlap. `input` is left as it was.
  virtual void reduce_scatter(Group group, Matrix input, Matrix output) = 0;
  /// The same, started now and finished by wait().
  virtual Ticket start_reduce_scatter(Group group, Matrix input, Matrix output) = 0;
  virtual void broadcast(Group group, int root_world_rank, Matrix buffer) = 0;
  /// The same, started now and finished by wait(); the root may read its buffer in between.
  virtual Ticket start_broadcast(Group group, int root_world_rank, Matrix buffer) = 0;
  /// An all-reduce that follows another call of this rank: once `before` is done, `prepare` runs on this rank
  /// and the all-reduce of `buffer` starts by itself, at the latest while this rank waits for anything. Takes
  /// `before` over. Those of one group start in the order of these calls. `prepare` must not call the
  /// communicator.
  virtual Ticket start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                        Matrix buffer, ReduceOp op) = 0;
  virtual void barrier(Group group) = 0;

  /// Starts a message to or from a world rank. Messages between two ranks with one tag arrive in order.
  virtual Ticket send(Matrix buffer, int to, int tag) = 0;
  virtual Ticket receive(Matrix buffer, int from, int tag) = 0;
  virtual void wait(Ticket& ticket) = 0;
  /// Has the times of what was just started noted, without waiting for it. `times` must stay where it is
  /// until the ticket has been waited for and progress() was called after that. The end is when this rank
  /// sees it done, in progress() or a wait; an emulated rank's is exact. Nothing for an empty ticket.
  virtual void watch(const Ticket& /*ticket*/, TicketTimes& /*times*/) {}
  /// Lets the transport make progress on what is under way; cheap.
  virtual void progress() = 0;

  /// Seconds on a clock common to all ranks (error bound: clock_error()).
  virtual Seconds now() const = 0;
  virtual Seconds clock_error() const = 0;
  virtual const Traffic& traffic() const = 0;
};

}  // namespace plumbline
