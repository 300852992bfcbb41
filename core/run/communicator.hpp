// Messages between ranks: point-to-point and collectives over the groups of a Layout.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"
#include "core/run/collective.hpp"
#include "core/run/traffic.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// One rank's end. All matrices must be contiguous. Calls that name a group are collective over it. Throws
/// Error when this rank is not in the group, or an argument cannot be right. Failures of the transport are
/// thrown as Error with the call and the transport's own words.
///
/// Requests are checked and counted here; a transport implements the private part.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Layout& layout() const { return layout_; }
  int rank() const { return rank_; }  // world rank
  const Traffic& traffic() const { return traffic_; }

  /// Sum or maximum over the group, in place, same result bit for bit on every member. fp32, bf16 (added in
  /// fp32, rounded once per hop), int32.
  void all_reduce(Group group, const Matrix& buffer, ReduceOp op) {
    run({CollectiveKind::all_reduce, group, buffer, buffer, op});
  }
  /// All-reduce out of place: `input` is not changed, and must not overlap `output`.
  void all_reduce(Group group, const Matrix& input, const Matrix& output, ReduceOp op) {
    run({CollectiveKind::all_reduce, group, input, output, op});
  }
  /// All-reduce in place, started now and finished by wait(); `buffer` must not be touched in between.
  Ticket start_all_reduce(Group group, const Matrix& buffer, ReduceOp op) {
    return start({CollectiveKind::all_reduce, group, buffer, buffer, op});
  }
  /// output holds the members' inputs one after another in group order. `input` may be this rank's own place
  /// in `output` (in place), or must not overlap it.
  void all_gather(Group group, const Matrix& input, const Matrix& output) {
    run({CollectiveKind::all_gather, group, input, output});
  }
  /// The same, started now and finished by wait().
  Ticket start_all_gather(Group group, const Matrix& input, const Matrix& output) {
    return start({CollectiveKind::all_gather, group, input, output});
  }
  /// input is split into as many equal pieces as members; output is the sum over members of this rank's
  /// piece. They must not overlap. `input` is not changed.
  void reduce_scatter(Group group, const Matrix& input, const Matrix& output) {
    run({CollectiveKind::reduce_scatter, group, input, output});
  }
  /// The same, started now and finished by wait().
  Ticket start_reduce_scatter(Group group, const Matrix& input, const Matrix& output) {
    return start({CollectiveKind::reduce_scatter, group, input, output});
  }
  /// input is split into as many equal pieces as members; piece i goes to member i, and output holds the
  /// received pieces, one after another in group order. They must not overlap. `input` is not changed.
  void all_to_all(Group group, const Matrix& input, const Matrix& output) {
    run({CollectiveKind::all_to_all, group, input, output});
  }
  /// The same with pieces of different sizes: sent[i] elements of input go to member i, received[i] come from
  /// it. Either may be 0.
  void all_to_all(Group group, const Matrix& input, std::span<const std::int64_t> sent, const Matrix& output,
                  std::span<const std::int64_t> received) {
    Collective call{CollectiveKind::all_to_all, group, input, output};
    call.sent = sent;
    call.received = received;
    run(call);
  }
  /// The same, started now and finished by wait(). The numbers of elements are read before this returns.
  Ticket start_all_to_all(Group group, const Matrix& input, std::span<const std::int64_t> sent,
                          const Matrix& output, std::span<const std::int64_t> received) {
    Collective call{CollectiveKind::all_to_all, group, input, output};
    call.sent = sent;
    call.received = received;
    return start(call);
  }
  /// Every member's buffer gets the contents of the root's.
  void broadcast(Group group, int root_world_rank, const Matrix& buffer) {
    run({CollectiveKind::broadcast, group, buffer, buffer, ReduceOp::sum, root_world_rank});
  }
  /// The same, started now and finished by wait(); the root may read its buffer in between.
  Ticket start_broadcast(Group group, int root_world_rank, const Matrix& buffer) {
    return start({CollectiveKind::broadcast, group, buffer, buffer, ReduceOp::sum, root_world_rank});
  }
  /// The root's output becomes the sum of all members' inputs, which are not changed; other members' outputs
  /// are not touched. Input and output must not overlap.
  Ticket start_reduce(Group group, int root_world_rank, const Matrix& input, const Matrix& output) {
    return start({CollectiveKind::reduce, group, input, output, ReduceOp::sum, root_world_rank});
  }
  /// An all-reduce that follows another call of this rank. Once `before` is done, `prepare` runs on this rank
  /// and the all-reduce of `buffer` starts by itself. At the latest it does so while this rank waits for
  /// anything. Takes over `before`. Those of one group start in the order of these calls. `prepare` must not
  /// call the communicator; empty: nothing is left to do between the two. With a device it is called at once;
  /// its operators run once `before` is done.
  Ticket start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                const Matrix& buffer, ReduceOp op);
  /// Starts a message to or from a world rank. Messages between two ranks with one tag arrive in order.
  Ticket send(const Matrix& buffer, int to, int tag) {
    return start({PointToPoint::Kind::send, buffer, to, tag});
  }
  Ticket receive(const Matrix& buffer, int from, int tag) {
    return start({PointToPoint::Kind::receive, buffer, from, tag});
  }

  /// The calls above, as data. run() returns when the collective is done.
  void run(Collective call);
  Ticket start(const Collective& call);
  Ticket start(const PointToPoint& message);
  void wait(Ticket& ticket) {
    if (ticket) finish(ticket);
  }

  virtual void barrier(Group group) = 0;
  /// Records the times of a call that was just started, without waiting for it. `times` must stay in place
  /// until the ticket has been waited for and settle_times() was called after that. The end is when this rank
  /// sees it done, in progress() or a wait; an emulated rank's and a device's are exact. Nothing for an empty
  /// ticket.
  virtual void watch(const Ticket& /*ticket*/, TicketTimes& /*times*/) {}
  /// Fills in the times of watched calls, all of which have been waited for, as have the operators.
  virtual void settle_times() { progress(); }
  /// Lets the transport make progress on pending operations; cheap.
  virtual void progress() {}
  /// Seconds on a clock common to all ranks.
  virtual Seconds now() const = 0;

 protected:
  Communicator(const Layout& layout, int rank);
  /// World ranks of a group, ascending. Throws Error when this rank is not in it.
  const std::vector<int>& members(Group group) const;
  /// Place of a world rank among the members; their number for a rank outside.
  int place_in(Group group, int world_rank) const;

 private:
  /// Starts a collective of at least one byte between at least two members. One that is awaited may be over
  /// on return: no ticket then.
  virtual Ticket begin(const Collective& call) = 0;
  virtual Ticket begin(const PointToPoint& message) = 0;
  virtual Ticket begin(Follower follower) = 0;
  /// Waits for a ticket, which is not empty, and clears it.
  virtual void finish(Ticket& ticket) = 0;
  /// A collective in a group of one, whose buffers are two: output = input.
  virtual void copy(const Collective& call) = 0;

  /// Checks and counts a collective. False when nothing moves between ranks: it is done already.
  bool admit(const Collective& call, std::string_view before_name, std::string_view after_name);

  Layout layout_;
  int rank_;
  std::array<std::vector<int>, kGroups> members_;  // empty if this rank is not in the group
  Traffic traffic_;
};

}  // namespace plumbline
