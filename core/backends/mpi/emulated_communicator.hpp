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

/// Times of the emulated machine's links, and the slowdown of a rank's computation while it has a started
/// collective of that kind (1 if the function is missing).
struct EmulatedLinks {
  std::function<EmulatedTransfer(Bytes, int from, int to)> message;  // world ranks
  std::function<Seconds(const EmulatedCollective&)> collective;
  std::function<double(const EmulatedCollective&)> slowdown{};
};

/// One emulated rank's end. Order and pairing are real, so a program that would hang or mix up its buffers
/// does so here. A send is done when the receiver has taken it and it has arrived; a collective begins when
/// its last member arrives. Messages of a pair of ranks in one direction follow each other on one link.
/// Collectives of a group follow each other on one lane alongside the computation, which they slow down. The
/// slowdown is paid where a collective is waited for. Members that disagree about a collective or a message's
/// size get an Error. Waiting for others yields the processor, and now() first waits until the emulated work
/// is done, so times read from it are those of the emulated machine.
class EmulatedCommunicator final : public Communicator {
 public:
  /// Collective over `world`, the ranks of the layout. `clock` must outlive it, and so must `notes`. `notes`,
  /// if given, gets every collective and every message of the context group's ring, but no watched calls and
  /// no other messages. Throws InputError as MpiCommunicator does.
  EmulatedCommunicator(const Layout& layout, EmulatedClock& clock, EmulatedLinks links,
                       LaneNotes* notes = nullptr, MPI_Comm world = MPI_COMM_WORLD);

  void barrier(Group group) override;
  void watch(const Ticket& ticket, TicketTimes& times) override;
  void progress() override;
  Seconds now() const override;

 private:
  /// Content of a message in place of its payload.
  struct Note {
    double departure = 0;
    double arrival = 0;
    std::int64_t bytes = 0;
  };
  /// Each member is reduced with MAX over the group. `start`: when the last member came. `call` and
  /// `negative_call`: the same call with either sign, so that all members agree exactly if the two still
  /// match. `cost`: that of the slowest member.
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
  /// For virtual time, which does not pass for a waiting sender: the receiver reports the arrival.
  void begin_answer(Pending& slot, int peer, int tag);
  /// Starts a collective of `bytes` bytes, equal on all members, that lasts as long as the largest `cost`.
  Ticket begin_meeting(CollectiveKind kind, Group group, Bytes bytes, Seconds cost);
  /// Adds the slowdown of computation alongside a collective that has met.
  void pay_slowdown(const Pending& slot);
  bool in_ring(int peer) const;
  /// The rank has reached its wait for `end`.
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
