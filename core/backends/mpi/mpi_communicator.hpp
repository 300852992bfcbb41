// The Communicator over Open MPI.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/groups.hpp"
#include "core/backends/mpi/reduce_ops.hpp"
#include "core/backends/mpi/waiter.hpp"
#include "core/run/communicator.hpp"
#include "core/run/ticket_slots.hpp"

namespace plumbline {

struct MpiOptions {
  /// MPI counts are ints: longer buffers go in pieces of this many elements.
  std::int64_t longest_call = std::int64_t{1} << 30;
  /// Give the processor away while waiting; default: when the host has more ranks than processors.
  std::optional<bool> crowded;
  MPI_Comm world = MPI_COMM_WORLD;  // ranks of the layout
};

/// One rank's end of all groups of a layout, on communicators of its own. Host memory only. fp16 reduces like
/// bf16. Results of a collective are the same bits on every member and in every run: Open MPI chooses the
/// algorithm by size and group, never by arrival, and adds commutatively.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective over the options' world, after MPI_Init; destroy before MPI_Finalize. Throws InputError when
  /// the layout's size is not that of the world.
  explicit MpiCommunicator(const Layout& layout, const MpiOptions& options = {});

  void barrier(Group group) override;
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void progress() override;
  /// Seconds on a clock common to all ranks (error bound: clock_error()).
  Seconds now() const override { return monotonic_now() + clock_.offset; }
  Seconds clock_error() const { return clock_.error; }
  /// Offset that now() adds to this host's CLOCK_MONOTONIC.
  Seconds clock_offset() const { return clock_.offset; }
  /// True if waiting yields the processor.
  bool crowded() const { return waiter_.crowded(); }

 private:
  /// One MPI request of a ticket; `expected`: elements of a message.
  struct Part {
    MPI_Request request = MPI_REQUEST_NULL;
    int expected = -1;  // of a receive
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };
  struct Pending {
    const char* call = "";
    std::vector<Part> parts;
    bool follows = false;  // waits in followers_ for another ticket
    TicketTimes* times = nullptr;
  };
  /// Call deferred by start_all_reduce_after, and the ticket its caller holds.
  struct PutOff {
    Follower follower;
    Ticket ticket;
  };

  Ticket begin(const Collective& call) override;
  Ticket begin(const PointToPoint& message) override;
  Ticket begin(Follower follower) override;
  void finish(Ticket& ticket) override;
  void copy(const Collective& call) override;

  MPI_Comm comm(Group group) const { return groups_[static_cast<std::size_t>(group)].get(); }
  /// The collective in MPI's blocking form.
  void run_now(const Collective& call);
  Ticket open(const char* call);
  void close(Ticket& ticket);
  /// call(data, count) for pieces of `buffer` that fit one MPI call.
  template <class Call>
  void for_pieces(const Matrix& buffer, Call call) const {
    for (std::int64_t first = 0; first < buffer.elements(); first += longest_call_) {
      const std::int64_t count = std::min(longest_call_, buffer.elements() - first);
      call(buffer.reshaped(1, buffer.elements()).at(0, first), static_cast<int>(count));
    }
  }
  Ticket begin_all_gather(const Collective& call);
  Ticket begin_reduce_scatter(const Collective& call);
  Ticket begin_all_to_all(const Collective& call);
  /// These add a collective to the ticket, in one or several MPI calls.
  void add_all_reduce(const Collective& call, const Ticket& ticket);
  /// `root` is a rank of the group.
  void add_broadcast(Group group, int root, const Matrix& buffer, const Ticket& ticket);
  void add_reduce(Group group, int root, const Matrix& input, const Matrix& output, const Ticket& ticket);
  /// True if all of a collective is done; its ticket still has to be closed.
  bool done(const Ticket& ticket);
  static bool done(Pending& asked);
  /// Now, if it is wanted.
  void note_end(Pending& slot);
  /// Starts the followers whose predecessor is done, in their order.
  void start_followers();
  /// Asks after everything whose times are wanted.
  void look_at_watched();
  /// The request of a new part of the ticket.
  MPI_Request* new_request(const Ticket& ticket) { return &pending_[ticket].parts.emplace_back().request; }

  MpiGroups groups_;
  std::int64_t longest_call_;
  Waiter waiter_;
  ClockOffset clock_;
  ReduceOps ops_;
  TicketSlots<Pending> pending_;
  std::deque<PutOff> followers_;
  int watched_ = 0;  // tickets whose end is wanted and not known
};

}  // namespace plumbline
