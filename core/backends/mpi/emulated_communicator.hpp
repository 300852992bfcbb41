// A Communicator whose payloads are never touched: real tiny messages carry when the payload would arrive.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/groups.hpp"
#include "core/backends/mpi/waiter.hpp"
#include "core/run/communicator.hpp"
#include "core/run/emulated_clock.hpp"

namespace plumbline {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast };

/// A collective as far as its time depends on it. `bytes` as Traffic counts them.
struct EmulatedCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Group group = Group::world;
  int ranks = 2;
  DType type = DType::fp32;
  Bytes bytes;
  bool started = false;  // start_… and wait
};

/// A message occupies the link between its two ranks for one time and arrives another time after that.
struct EmulatedTransfer {
  Seconds occupied;
  Seconds latency;
};

/// What the emulated machine's links take.
struct EmulatedLinks {
  std::function<EmulatedTransfer(Bytes, int from, int to)> message;  // world ranks
  std::function<Seconds(const EmulatedCollective&)> collective;
};

/// One emulated rank's end. Order and pairing are real, so a program that would hang or mix up its buffers
/// does so here: a send is done when the receiver has taken it and it has arrived; a collective begins when
/// its last member comes to it. Messages of a pair of ranks in one direction follow each other on one link,
/// collectives of a group on one lane beside the computation. Members that disagree about a collective or a
/// message's size get an Error. Waiting for others gives the processor away, and now() first waits until the
/// emulated work is done, so times read from it are those of the emulated machine.
class EmulatedCommunicator final : public Communicator {
 public:
  /// Collective over MPI_COMM_WORLD. `pace` must outlive it. Throws InputError as MpiCommunicator does.
  EmulatedCommunicator(const Layout& layout, Pace& pace, EmulatedLinks links);

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
  /// `prepare` runs at once: its time counts where this is called.
  Ticket start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group, Matrix buffer,
                                ReduceOp op) override;
  void barrier(Group group) override;
  Ticket send(Matrix buffer, int to, int tag) override;
  Ticket receive(Matrix buffer, int from, int tag) override;
  void wait(Ticket& ticket) override;
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void progress() override;
  Seconds now() const override;
  Seconds clock_error() const override { return clock_error_; }
  const Traffic& traffic() const override { return traffic_; }

 private:
  /// What a message carries in place of its payload.
  struct Message {
    double arrival = 0;
    std::int64_t bytes = 0;
  };
  /// The largest of every number is taken over the group: when the last member came, and the same call twice,
  /// once with its sign turned, so that all agree exactly if the two still fit.
  struct Meeting {
    double start = 0;
    double call = 0;
    double negative_call = 0;
  };
  enum class Kind { idle, send, receive, collective };
  struct Pending {
    Kind kind = Kind::idle;
    MPI_Request request = MPI_REQUEST_NULL;
    Message message;
    std::int64_t expected_bytes = 0;
    int peer = 0;
    Meeting mine;
    Meeting all;
    Group group = Group::world;
    Seconds cost;
    Seconds end;
    bool met = false;  // the collective's end is known
    Ticket before;     // the collective begins when this one has ended
    TicketTimes* times = nullptr;
  };

  Ticket open(Kind kind);
  Pending& pending(const Ticket& ticket) { return pending_[static_cast<std::size_t>(ticket.id)]; }
  Ticket start(CollectiveKind kind, Bytes GroupTraffic::*counted, Group group, const Matrix& whole,
               bool started);
  void finish(Ticket ticket) { wait(ticket); }
  /// Learns the ends of the group's collectives up to this one, in the order in which they were started.
  void meet(const Pending& last);
  void close(Ticket& ticket);
  void expect_root(Group group, int root_world_rank) const;

  MpiGroups groups_;
  Pace& pace_;
  EmulatedLinks links_;
  Waiter waiter_;
  Seconds clock_error_;
  MpiComm world_;                // messages; null for a world of one
  std::deque<Pending> pending_;  // requests keep pointers into it
  std::vector<std::int64_t> free_;
  std::map<int, Seconds> link_free_;                         // by receiver
  std::array<Seconds, kGroups> lane_free_{};                 // by group
  std::array<std::deque<std::int64_t>, kGroups> under_way_;  // ids of started collectives that have not met
  Traffic traffic_;
};

}  // namespace plumbline
