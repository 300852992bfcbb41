// The Communicator over Open MPI.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/groups.hpp"
#include "core/backends/mpi/reduce_ops.hpp"
#include "core/backends/mpi/waiter.hpp"
#include "core/run/communicator.hpp"

namespace plumbline {

struct MpiOptions {
  /// MPI counts are ints: longer buffers go in pieces of this many elements.
  std::int64_t longest_call = std::int64_t{1} << 30;
  /// Give the processor away while waiting; default: when the host has more ranks than processors.
  std::optional<bool> crowded;
};

/// One rank's end of all groups of a layout, on communicators of its own. Host memory only. fp16 reduces like
/// bf16. Results of a collective are the same bits on every member and in every run: Open MPI chooses the
/// algorithm by size and group, never by arrival, and adds commutatively.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective over MPI_COMM_WORLD, after MPI_Init; destroy before MPI_Finalize. Throws InputError when the
  /// layout's size is not the number of ranks that were started.
  explicit MpiCommunicator(const Layout& layout, const MpiOptions& options = {});

  const Layout& layout() const override { return groups_.layout(); }
  int rank() const override { return groups_.rank(); }
  void all_reduce(Group group, Matrix buffer, ReduceOp op) override;
  Ticket start_all_reduce(Group group, Matrix buffer, ReduceOp op) override;
  void all_gather(Group group, Matrix input, Matrix output) override;
  Ticket start_all_gather(Group group, Matrix input, Matrix output) override;
  void reduce_scatter(Group group, Matrix input, Matrix output) override;
  Ticket start_reduce_scatter(Group group, Matrix input, Matrix output) override;
  void broadcast(Group group, int root_world_rank, Matrix buffer) override;
  Ticket start_broadcast(Group group, int root_world_rank, Matrix buffer) override;
  Ticket start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group, Matrix buffer,
                                ReduceOp op) override;
  void barrier(Group group) override;
  Ticket send(Matrix buffer, int to, int tag) override;
  Ticket receive(Matrix buffer, int from, int tag) override;
  void wait(Ticket& ticket) override;
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void progress() override;
  Seconds now() const override { return monotonic_now() + clock_.offset; }
  Seconds clock_error() const override { return clock_.error; }
  const Traffic& traffic() const override { return traffic_; }

  /// What now() adds to this host's CLOCK_MONOTONIC.
  Seconds clock_offset() const { return clock_.offset; }
  /// Whether waiting gives the processor away.
  bool crowded() const { return waiter_.crowded(); }

 private:
  using Members = MpiGroup;
  /// One MPI request of a ticket; a message expects so many elements.
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
  /// What start_all_reduce_after has put off.
  struct Follower {
    Ticket before;
    std::function<void()> prepare;
    Group group;
    Matrix buffer;
    ReduceOp op;
    Ticket ticket;
  };

  const Members& members(Group group) const { return groups_.of(group); }
  Ticket open(const char* call);
  Pending& pending(const Ticket& ticket) { return pending_[static_cast<std::size_t>(ticket.id)]; }
  /// call(data, count) for pieces of `buffer` that fit one MPI call.
  template <class Call>
  void for_pieces(const Matrix& buffer, Call call) const {
    for (std::int64_t first = 0; first < buffer.elements(); first += longest_call_) {
      const std::int64_t count = std::min(longest_call_, buffer.elements() - first);
      call(buffer.reshaped(1, buffer.elements()).at(0, first), static_cast<int>(count));
    }
  }
  /// Adds an MPI_Ibcast of each piece of `buffer` to the ticket.
  void broadcast_pieces(const Members& group, int root, const Matrix& buffer, const Ticket& ticket);
  void all_reduce_pieces(const Members& group, const Matrix& buffer, ReduceOp op, const Ticket& ticket);
  /// Rank within the group; throws Error for a rank outside.
  static int root_of(const Members& group, int root_world_rank);
  /// Whether all of a collective is done; its ticket still has to be closed.
  bool done(const Ticket& ticket);
  static bool done(Pending& asked);
  /// Now, if it is wanted.
  void note_end(Pending& slot);
  /// Starts the followers whose predecessor is done, in their order.
  void start_followers();
  void close(Ticket& ticket);
  /// Asks after everything whose times are wanted.
  void look_at_watched();
  /// The request of a new part of the ticket.
  MPI_Request* new_request(const Ticket& ticket) { return &pending(ticket).parts.emplace_back().request; }
  /// Adds to what the group has moved; a group of one moves nothing.
  void count(Group group, Bytes GroupTraffic::*kind, Bytes bytes);

  MpiGroups groups_;
  std::int64_t longest_call_;
  Waiter waiter_;
  ClockOffset clock_;
  ReduceOps ops_;
  std::vector<Pending> pending_;
  std::vector<std::int64_t> free_;  // slots of pending_ that are not in use
  std::deque<Follower> followers_;
  int watched_ = 0;  // tickets whose end is wanted and not known
  Traffic traffic_;
};

}  // namespace plumbline
