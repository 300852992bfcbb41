// A Communicator whose payloads are never touched: real tiny messages carry when the payload would arrive.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "core/backends/mpi/groups.hpp"
#include "core/backends/mpi/waiter.hpp"
#include "core/run/communicator.hpp"
#include "core/run/emulated_clock.hpp"
#include "core/run/lane_notes.hpp"
#include "core/run/ticket_slots.hpp"

namespace plumbline {

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

/// What the emulated machine's links take, and how many times as long a rank computes while it has started a collective
/// of that kind (1 where the function is missing).
struct EmulatedLinks {
  std::function<EmulatedTransfer(Bytes, int from, int to)> message;  // world ranks
  std::function<Seconds(const EmulatedCollective&)> collective;
  std::function<double(const EmulatedCollective&)> slowdown{};
};

/// One emulated rank's end. Order and pairing are real, so a program that would hang or mix up its buffers
/// does so here: a send is done when the receiver has taken it and it has arrived; a collective begins when
/// its last member arrives. Messages of a pair of ranks in one direction follow each other on one link,
/// collectives of a group on one lane alongside the computation, which they slow down: what it takes longer is paid where
/// a collective is waited for. Members that disagree about a collective or
/// a message's size get an Error. Waiting for others gives the processor away, and now() first waits until
/// the emulated work is done, so times read from it are those of the emulated machine.
class EmulatedCommunicator final : public Communicator {
 public:
  /// Collective over MPI_COMM_WORLD. `clock` must outlive it, and so must `notes`, which, where given, gets every collective
  /// and every message that comes round a ring of the context group; not those that are watched, nor others' messages.
  /// Throws InputError as MpiCommunicator does.
  EmulatedCommunicator(const Layout& layout, EmulatedClock& clock, EmulatedLinks links,
                       LaneNotes* notes = nullptr);

  void barrier(Group group) override;
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void progress() override;
  Seconds now() const override;

 private:
  /// What a message carries in place of its payload.
  struct Note {
    double departure = 0;
    double arrival = 0;
    std::int64_t bytes = 0;
  };
  /// The largest of every number is taken over the group: when the last member came, and the same call twice,
  /// once with its sign turned, so that all agree exactly if the two still fit, and what the slowest of them takes.
  struct Meeting {
    double start = 0;
    double call = 0;
    double negative_call = 0;
    double cost = 0;
  };
  enum class Kind { idle, send, receive, collective };
  struct Pending {
    Kind kind = Kind::idle;
    MPI_Request request = MPI_REQUEST_NULL;
    Note message;
    double taken =
        0;  // virtual time: when the receiver came for the message; `answer` carries it to the sender
    MPI_Request answer = MPI_REQUEST_NULL;
    std::int64_t expected_bytes = 0;
    int peer = 0;
    Meeting mine;
    Meeting all;
    Group group = Group::world;
    Seconds cost;
    double slowdown = 1;
    Seconds end;
    bool met = false;  // the collective's end is known
    bool noted = false;
    Ticket before;  // the collective begins when this one has ended
    TicketTimes* times = nullptr;
  };

  Ticket begin(const Collective& call) override;
  Ticket begin(const PointToPoint& message) override;
  /// `prepare` runs at once: its time counts where this is called.
  Ticket begin(Follower follower) override;
  void finish(Ticket& ticket) override;
  void copy(const Collective& /*call*/) override {}

  Ticket open(Kind kind);
  void close(Ticket& ticket);
  /// Of virtual time, which a sender that waits does not see pass: the receiver says when it came.
  void begin_answer(Pending& slot, int peer, int tag);
  /// Starts a collective that lasts as long as the largest `cost`, of `bytes` bytes, as all members must say.
  Ticket begin_meeting(CollectiveKind kind, Group group, Bytes bytes, Seconds cost);
  /// Adds what computation took longer alongside a collective that has met.
  void pay_slowdown(const Pending& slot);
  bool in_ring(int peer) const;
  /// The rank has come to where it waits for `end`.
  void note(Group group, Seconds begin, Seconds end);
  /// Learns the ends of the group's collectives up to this one, in the order in which they were started.
  void meet(const Pending& last);

  MpiGroups groups_;
  EmulatedClock& clock_;
  EmulatedLinks links_;
  LaneNotes* notes_;
  Waiter waiter_;
  MpiComm world_;                                      // messages; null for a world of one
  MpiComm answers_;                                    // to them, in virtual time
  TicketSlots<Pending> pending_;                       // requests keep pointers into it
  std::map<int, Seconds> link_free_;                   // by receiver
  std::array<Seconds, kGroups> lane_free_{};           // by group
  std::array<std::deque<Ticket>, kGroups> under_way_;  // started collectives that have not met
};

}  // namespace plumbline
