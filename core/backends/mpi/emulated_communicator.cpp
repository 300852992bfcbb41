#include "core/backends/mpi/emulated_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kMeetingNumbers = 3;

/// Ranks that wait wake up to look; all of them together should leave the processors to those that work.
Seconds longest_sleep(int ranks) {
  return {std::clamp(8e-6 * ranks, 50e-6, 500e-6)};
}

std::size_t index(Group group) {
  return static_cast<std::size_t>(group);
}

}  // namespace

EmulatedCommunicator::EmulatedCommunicator(const Layout& layout, Pace& pace, EmulatedLinks links)
    : groups_(layout),
      pace_(pace),
      links_(std::move(links)),
      waiter_(pace.runs() || host_is_crowded(MPI_COMM_WORLD), longest_sleep(layout.world())),
      clock_error_(common_clock(MPI_COMM_WORLD).error) {
  if (layout.world() == 1) return;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, world_.out()), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(world_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Ticket EmulatedCommunicator::open(Kind kind) {
  std::int64_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int64_t>(pending_.size());
    pending_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Pending& slot = pending_[static_cast<std::size_t>(id)];
  slot = {};
  slot.kind = kind;
  return {id};
}

Ticket EmulatedCommunicator::send(Matrix buffer, int to, int tag) {
  expect_argument(buffer.contiguous(), "send", "the matrix must be contiguous");
  expect_argument(to != rank() && to >= 0 && to < layout().world(), "send",
                  "the receiver must be another rank of the world");
  traffic_.messages_sent += 1;
  traffic_.point_to_point_sent += buffer.bytes();
  const Ticket ticket = open(Kind::send);
  Pending& slot = pending(ticket);
  slot.message.bytes = buffer.bytes().value;
  if (pace_.runs()) {
    const EmulatedTransfer transfer = links_.message(buffer.bytes(), rank(), to);
    Seconds& link = link_free_[to];
    link = std::max(pace_.position(), link) + transfer.occupied;
    slot.end = link + transfer.latency;
    slot.message.arrival = slot.end.value;
  }
  // Synchronous: the request is done only when the receiver has come for the message.
  check_mpi(MPI_Issend(&slot.message, sizeof(Message), MPI_BYTE, to, tag, world_.get(), &slot.request),
            "MPI_Issend");
  return ticket;
}

Ticket EmulatedCommunicator::receive(Matrix buffer, int from, int tag) {
  expect_argument(buffer.contiguous(), "receive", "the matrix must be contiguous");
  expect_argument(from != rank() && from >= 0 && from < layout().world(), "receive",
                  "the sender must be another rank of the world");
  const Ticket ticket = open(Kind::receive);
  Pending& slot = pending(ticket);
  slot.expected_bytes = buffer.bytes().value;
  slot.peer = from;
  check_mpi(MPI_Irecv(&slot.message, sizeof(Message), MPI_BYTE, from, tag, world_.get(), &slot.request),
            "MPI_Irecv");
  return ticket;
}

Ticket EmulatedCommunicator::start(CollectiveKind kind, Bytes GroupTraffic::*counted, Group group,
                                   const Matrix& whole, bool started) {
  const MpiGroup& in = groups_.of(group);
  expect_argument(whole.contiguous(), "collective", "the matrices must be contiguous");
  if (!in.comm || whole.empty()) return {};
  if (counted != nullptr) traffic_.of(group).add(counted, whole.bytes());
  const Ticket ticket = open(Kind::collective);
  Pending& slot = pending(ticket);
  slot.group = group;
  if (pace_.runs() && counted != nullptr) {
    slot.cost = links_.collective(
        {kind, group, static_cast<int>(in.ranks.size()), whole.dtype, whole.bytes(), started});
  }
  const double call = static_cast<double>(whole.bytes().value) * 4 + static_cast<int>(kind);
  slot.mine = {pace_.position().value, call, -call};
  check_mpi(MPI_Iallreduce(&slot.mine, &slot.all, kMeetingNumbers, MPI_DOUBLE, MPI_MAX, in.comm.get(),
                           &slot.request),
            "MPI_Iallreduce");
  under_way_[index(group)].push_back(ticket.id);
  return ticket;
}

void EmulatedCommunicator::meet(const Pending& last) {
  std::deque<std::int64_t>& queue = under_way_[index(last.group)];
  while (!last.met) {
    Pending& next = pending_[static_cast<std::size_t>(queue.front())];
    waiter_.wait(next.request, MPI_STATUS_IGNORE, "MPI_Iallreduce");
    if (next.all.call != next.mine.call || next.all.negative_call != next.mine.negative_call) {
      throw Error(
          fmt::format("rank {}: the members of the {} group disagree about a collective: here it has "
                      "{:.0f} bytes, elsewhere {:.0f}, or it is of another kind",
                      rank(), name_of(next.group), next.mine.call / 4,
                      next.all.call != next.mine.call ? next.all.call / 4 : -next.all.negative_call / 4));
    }
    Seconds begin{next.all.start};
    Seconds begin_here;
    if (next.before) {
      meet(pending(next.before));
      begin_here = pending(next.before).end;
      begin = std::max(begin, begin_here);
      close(next.before);
    }
    Seconds& lane = lane_free_[index(next.group)];
    lane = std::max(begin, lane) + next.cost;
    next.end = lane;
    next.met = true;
    if (next.times != nullptr) {
      next.times->start = std::max(next.times->start, begin_here);
      next.times->end = pace_.runs() ? next.end : pace_.now();
    }
    queue.pop_front();
  }
}

void EmulatedCommunicator::wait(Ticket& ticket) {
  if (!ticket) return;
  Pending& slot = pending(ticket);
  switch (slot.kind) {
    case Kind::collective:
      meet(slot);
      break;
    case Kind::send:
      waiter_.wait(slot.request, MPI_STATUS_IGNORE, "MPI_Issend");
      break;
    case Kind::receive:
      waiter_.wait(slot.request, MPI_STATUS_IGNORE, "MPI_Irecv");
      if (slot.message.bytes != slot.expected_bytes) {
        throw Error(fmt::format("rank {} expected {} bytes from rank {}, but {} came", rank(),
                                slot.expected_bytes, slot.peer, slot.message.bytes));
      }
      slot.end = {slot.message.arrival};
      break;
    case Kind::idle:
      break;
  }
  pace_.advance_to(slot.end);
  close(ticket);
}

void EmulatedCommunicator::watch(const Ticket& ticket, TicketTimes& times) {
  if (!ticket) return;
  Pending& slot = pending(ticket);
  times = {pace_.runs() ? Seconds{slot.mine.start} : pace_.now(), {}};
  slot.times = &times;
}

void EmulatedCommunicator::close(Ticket& ticket) {
  pending(ticket).kind = Kind::idle;
  free_.push_back(ticket.id);
  ticket = {};
}

void EmulatedCommunicator::all_reduce(Group group, Matrix buffer, ReduceOp /*op*/) {
  finish(start(CollectiveKind::all_reduce, &GroupTraffic::all_reduced, group, buffer, false));
}
Ticket EmulatedCommunicator::start_all_reduce(Group group, Matrix buffer, ReduceOp /*op*/) {
  return start(CollectiveKind::all_reduce, &GroupTraffic::all_reduced, group, buffer, true);
}
void EmulatedCommunicator::all_gather(Group group, Matrix input, Matrix output) {
  expect_argument(input.elements() * std::ssize(groups_.of(group).ranks) == output.elements(), "all_gather",
                  "the output must have members x the elements of the input");
  finish(start(CollectiveKind::all_gather, &GroupTraffic::all_gathered, group, output, false));
}
Ticket EmulatedCommunicator::start_all_gather(Group group, Matrix input, Matrix output) {
  expect_argument(input.elements() * std::ssize(groups_.of(group).ranks) == output.elements(),
                  "start_all_gather", "the output must have members x the elements of the input");
  return start(CollectiveKind::all_gather, &GroupTraffic::all_gathered, group, output, true);
}
void EmulatedCommunicator::reduce_scatter(Group group, Matrix input, Matrix output) {
  expect_argument(output.elements() * std::ssize(groups_.of(group).ranks) == input.elements(),
                  "reduce_scatter", "the input must have members x the elements of the output");
  finish(start(CollectiveKind::reduce_scatter, &GroupTraffic::reduce_scattered, group, input, false));
}
Ticket EmulatedCommunicator::start_reduce_scatter(Group group, Matrix input, Matrix output) {
  expect_argument(output.elements() * std::ssize(groups_.of(group).ranks) == input.elements(),
                  "start_reduce_scatter", "the input must have members x the elements of the output");
  return start(CollectiveKind::reduce_scatter, &GroupTraffic::reduce_scattered, group, input, true);
}

void EmulatedCommunicator::expect_root(Group group, int root_world_rank) const {
  const std::vector<int>& ranks = groups_.of(group).ranks;
  expect_argument(std::find(ranks.begin(), ranks.end(), root_world_rank) != ranks.end(), "broadcast",
                  "the root must be in the group");
}

Ticket EmulatedCommunicator::start_broadcast(Group group, int root_world_rank, Matrix buffer) {
  expect_root(group, root_world_rank);
  return start(CollectiveKind::broadcast, &GroupTraffic::broadcast, group, buffer, true);
}

Ticket EmulatedCommunicator::start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                                    Matrix buffer, ReduceOp /*op*/) {
  prepare();
  const Ticket ticket = start(CollectiveKind::all_reduce, &GroupTraffic::all_reduced, group, buffer, true);
  if (ticket) {
    pending(ticket).before = before;
  } else {
    wait(before);
  }
  return ticket;
}

void EmulatedCommunicator::broadcast(Group group, int root_world_rank, Matrix buffer) {
  expect_root(group, root_world_rank);
  finish(start(CollectiveKind::broadcast, &GroupTraffic::broadcast, group, buffer, false));
}

void EmulatedCommunicator::barrier(Group group) {
  std::int32_t word = 0;
  finish(start(CollectiveKind::all_reduce, nullptr, group, Matrix(&word, 1, 1, DType::int32), false));
  // What follows begins now: nobody may make up for being late to a barrier.
  pace_.advance_to(pace_.now());
}

void EmulatedCommunicator::progress() {
  if (free_.size() != pending_.size()) drive_mpi();
}

Seconds EmulatedCommunicator::now() const {
  if (free_.size() == pending_.size()) {
    pace_.catch_up();
  } else {
    // Others may wait for what this rank has started.
    pace_.catch_up(drive_mpi);
  }
  return pace_.now();
}

}  // namespace plumbline
