#include "core/backends/mpi/emulated_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kMeetingNumbers = 4;
constexpr int kKinds = 8;  // more than there are of CollectiveKind

/// Ranks that wait wake up to look; all of them together should leave the processors to those that work.
Seconds longest_sleep(int ranks) {
  return {std::clamp(8e-6 * ranks, 50e-6, 500e-6)};
}

std::size_t index(Group group) {
  return static_cast<std::size_t>(group);
}

}  // namespace

EmulatedCommunicator::EmulatedCommunicator(const Layout& layout, EmulatedClock& clock, EmulatedLinks links,
                                           LaneNotes* notes, MPI_Comm world)
    : Communicator(layout, started_rank(layout, world)),
      groups_(split_groups(layout, rank(), world)),
      clock_(clock),
      links_(std::move(links)),
      notes_(notes),
      waiter_(clock.runs() || host_is_crowded(world), longest_sleep(layout.world())) {
  if (layout.world() == 1) return;
  check_mpi(MPI_Comm_dup(world, world_.out()), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(world_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (!clock.is_virtual()) return;
  check_mpi(MPI_Comm_dup(world, answers_.out()), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(answers_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Ticket EmulatedCommunicator::open(Kind kind) {
  const Ticket ticket = pending_.open();
  pending_[ticket] = {};
  pending_[ticket].kind = kind;
  return ticket;
}

Ticket EmulatedCommunicator::begin(const PointToPoint& message) {
  const Bytes bytes = message.buffer.bytes();
  const int peer = message.peer;
  if (message.kind == PointToPoint::Kind::receive) {
    const Ticket ticket = open(Kind::receive);
    Pending& slot = pending_[ticket];
    slot.expected_bytes = bytes.value;
    slot.peer = peer;
    check_mpi(
        MPI_Irecv(&slot.message, sizeof(Note), MPI_BYTE, peer, message.tag, world_.get(), &slot.request),
        "MPI_Irecv");
    begin_answer(slot, peer, message.tag);
    return ticket;
  }
  const Ticket ticket = open(Kind::send);
  Pending& slot = pending_[ticket];
  slot.message.bytes = bytes.value;
  if (clock_.runs()) {
    const EmulatedTransfer transfer = links_.message(bytes, rank(), peer);
    Seconds& link = link_free_[peer];
    link = std::max(clock_.position(), link);
    slot.message.departure = link.value;
    link += transfer.occupied;
    slot.end = link + transfer.latency;
    slot.message.arrival = slot.end.value;
  }
  // Synchronous: the request is done only when the receiver has come for the message.
  check_mpi(MPI_Issend(&slot.message, sizeof(Note), MPI_BYTE, peer, message.tag, world_.get(), &slot.request),
            "MPI_Issend");
  begin_answer(slot, peer, message.tag);
  return ticket;
}

void EmulatedCommunicator::begin_answer(Pending& slot, int peer, int tag) {
  if (!clock_.is_virtual()) return;
  // Messages of two ranks with one tag pair up in order, and so do their answers.
  slot.taken = clock_.position().value;
  if (slot.kind == Kind::receive) {
    check_mpi(MPI_Isend(&slot.taken, 1, MPI_DOUBLE, peer, tag, answers_.get(), &slot.answer), "MPI_Isend");
  } else {
    check_mpi(MPI_Irecv(&slot.taken, 1, MPI_DOUBLE, peer, tag, answers_.get(), &slot.answer), "MPI_Irecv");
  }
}

Ticket EmulatedCommunicator::begin(const Collective& call) {
  const Matrix& whole = call.whole();
  Seconds cost;
  double slowdown = 1;
  if (clock_.runs()) {
    const auto ranks = static_cast<int>(members(call.group).size());
    const Bytes bytes = call.uneven() ? std::max(whole.bytes(), call.output.bytes()) : whole.bytes();
    const EmulatedCollective asked{call.kind, call.group, ranks, whole.dtype, bytes, !call.awaited};
    cost = links_.collective(asked);
    if (!call.awaited && links_.slowdown) slowdown = links_.slowdown(asked);
  }
  const Ticket ticket = begin_meeting(call.kind, call.group, call.uneven() ? Bytes{} : whole.bytes(), cost);
  pending_[ticket].slowdown = slowdown;
  pending_[ticket].noted = true;
  return ticket;
}

void EmulatedCommunicator::pay_slowdown(const Pending& slot) {
  if (slot.slowdown <= 1) return;
  const Seconds begin = slot.end - slot.cost;
  const Seconds alongside = std::clamp(clock_.position() - begin, Seconds{0}, slot.cost / slot.slowdown);
  clock_.advance(alongside * (slot.slowdown - 1));
}

Ticket EmulatedCommunicator::begin(Follower follower) {
  if (follower.prepare) follower.prepare();
  const Ticket ticket = begin(follower.call);
  pending_[ticket].before = follower.before;
  return ticket;
}

Ticket EmulatedCommunicator::begin_meeting(CollectiveKind kind, Group group, Bytes bytes, Seconds cost) {
  const Ticket ticket = open(Kind::collective);
  Pending& slot = pending_[ticket];
  slot.group = group;
  slot.cost = cost;
  const double call = static_cast<double>(bytes.value) * kKinds + static_cast<int>(kind);
  slot.mine = {clock_.position().value, call, -call, cost.value};
  check_mpi(MPI_Iallreduce(&slot.mine, &slot.all, kMeetingNumbers, MPI_DOUBLE, MPI_MAX,
                           groups_[index(group)].get(), &slot.request),
            "MPI_Iallreduce");
  under_way_[index(group)].push_back(ticket);
  return ticket;
}

void EmulatedCommunicator::meet(const Pending& last) {
  std::deque<Ticket>& queue = under_way_[index(last.group)];
  while (!last.met) {
    Pending& next = pending_[queue.front()];
    waiter_.wait(next.request, MPI_STATUS_IGNORE, "MPI_Iallreduce");
    if (next.all.call != next.mine.call || next.all.negative_call != next.mine.negative_call) {
      throw Error(fmt::format(
          "rank {}: the members of the {} group disagree about a collective: here it has "
          "{:.0f} bytes, elsewhere {:.0f}, or it is of another kind",
          rank(), name_of(next.group), next.mine.call / kKinds,
          next.all.call != next.mine.call ? next.all.call / kKinds : -next.all.negative_call / kKinds));
    }
    next.cost = {next.all.cost};
    Seconds begin{next.all.start};
    Seconds begin_here;
    if (next.before) {
      meet(pending_[next.before]);
      begin_here = pending_[next.before].end;
      begin = std::max(begin, begin_here);
      close(next.before);
    }
    Seconds& lane = lane_free_[index(next.group)];
    lane = std::max(begin, lane) + next.cost;
    next.end = lane;
    next.met = true;
    if (next.times != nullptr) {
      next.times->start = std::max(next.times->start, begin_here);
      next.times->end = clock_.runs() ? next.end : clock_.now();
    }
    queue.pop_front();
  }
}

bool EmulatedCommunicator::in_ring(int peer) const {
  return layout().context > 1 && place_in(Group::context, peer) < std::ssize(members(Group::context));
}

void EmulatedCommunicator::note(Group group, Seconds begin, Seconds end) {
  if (notes_ != nullptr && clock_.runs())
    notes_->add({group, begin, end, std::max(Seconds{0}, end - clock_.position())});
}

void EmulatedCommunicator::finish(Ticket& ticket) {
  Pending& slot = pending_[ticket];
  switch (slot.kind) {
    case Kind::collective:
      meet(slot);
      pay_slowdown(slot);
      if (slot.noted && slot.times == nullptr) note(slot.group, slot.end - slot.cost, slot.end);
      break;
    case Kind::send:
      waiter_.wait(slot.request, MPI_STATUS_IGNORE, "MPI_Issend");
      waiter_.wait(slot.answer, MPI_STATUS_IGNORE, "MPI_Irecv");
      slot.end = std::max(slot.end, Seconds{slot.taken});
      break;
    case Kind::receive:
      waiter_.wait(slot.request, MPI_STATUS_IGNORE, "MPI_Irecv");
      waiter_.wait(slot.answer, MPI_STATUS_IGNORE, "MPI_Isend");
      if (slot.message.bytes != slot.expected_bytes) {
        throw Error(fmt::format("rank {} expected {} bytes from rank {}, but {} came", rank(),
                                slot.expected_bytes, slot.peer, slot.message.bytes));
      }
      slot.end = {slot.message.arrival};
      if (in_ring(slot.peer)) note(Group::context, {slot.message.departure}, slot.end);
      break;
    case Kind::idle:
      break;
  }
  clock_.advance_to(slot.end);
  close(ticket);
}

void EmulatedCommunicator::watch(const Ticket& ticket, TicketTimes& times) {
  if (!ticket) return;
  Pending& slot = pending_[ticket];
  times = {clock_.runs() ? Seconds{slot.mine.start} : clock_.now(), {}};
  slot.times = &times;
}

void EmulatedCommunicator::close(Ticket& ticket) {
  pending_[ticket].kind = Kind::idle;
  pending_.close(ticket);
}

void EmulatedCommunicator::barrier(Group group) {
  if (members(group).size() > 1) {
    Ticket ticket = begin_meeting(CollectiveKind::all_reduce, group, {sizeof(std::int32_t)}, {});
    wait(ticket);
  }
  // The following work begins now: nobody may make up for being late to a barrier.
  clock_.advance_to(clock_.now());
}

void EmulatedCommunicator::progress() {
  if (!pending_.idle()) drive_mpi();
}

Seconds EmulatedCommunicator::now() const {
  if (pending_.idle()) {
    clock_.catch_up();
  } else {
    // Others may wait for calls that this rank has started.
    clock_.catch_up(drive_mpi);
  }
  return clock_.now();
}

}  // namespace plumbline
