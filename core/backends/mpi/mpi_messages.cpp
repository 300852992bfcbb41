// Messages and tickets of the MPI communicator.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {}  // namespace

Ticket MpiCommunicator::send(Matrix buffer, int to, int tag) {
  const Members& world = members(Group::world);
  expect_argument(buffer.contiguous(), "send", "the matrix must be contiguous");
  expect_argument(to != rank() && to >= 0 && to < layout().world(), "send",
                  "the receiver must be another rank of the world");
  traffic_.messages_sent += 1;
  traffic_.point_to_point_sent += buffer.bytes();
  const Ticket ticket = open("MPI_Isend");
  for_pieces(buffer, [&](void* data, int count) {
    Part& part = pending(ticket).parts.emplace_back();
    check_mpi(MPI_Isend(data, count, mpi_type(buffer.dtype), to, tag, world.comm.get(), &part.request),
              "MPI_Isend");
  });
  return ticket;
}

Ticket MpiCommunicator::receive(Matrix buffer, int from, int tag) {
  const Members& world = members(Group::world);
  expect_argument(buffer.contiguous(), "receive", "the matrix must be contiguous");
  expect_argument(from != rank() && from >= 0 && from < layout().world(), "receive",
                  "the sender must be another rank of the world");
  const Ticket ticket = open("MPI_Irecv");
  for_pieces(buffer, [&](void* data, int count) {
    Part& part = pending(ticket).parts.emplace_back();
    part.expected = count;
    part.type = mpi_type(buffer.dtype);
    check_mpi(MPI_Irecv(data, count, part.type, from, tag, world.comm.get(), &part.request), "MPI_Irecv");
  });
  return ticket;
}

Ticket MpiCommunicator::open(const char* call) {
  std::int64_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int64_t>(pending_.size());
    pending_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  pending_[static_cast<std::size_t>(id)].call = call;
  return {id};
}

void MpiCommunicator::wait(Ticket& ticket) {
  if (!ticket) return;
  if (pending(ticket).follows) {
    waiter_.until([&] {
      start_followers();
      return !pending(ticket).follows;
    });
  }
  std::function<void()> meanwhile;
  if (!followers_.empty()) meanwhile = [this] { start_followers(); };
  Pending& waiting = pending(ticket);
  for (Part& part : waiting.parts) {
    MPI_Status status{};
    waiter_.wait(part.request, part.expected >= 0 ? &status : MPI_STATUS_IGNORE, waiting.call, meanwhile);
    if (part.expected < 0) continue;
    int received = 0;
    check_mpi(MPI_Get_count(&status, part.type, &received), "MPI_Get_count");
    if (received != part.expected) {
      throw Error(fmt::format("rank {} expected {} elements from rank {} with tag {}, but {} came", rank(),
                              part.expected, status.MPI_SOURCE, status.MPI_TAG, received));
    }
  }
  close(ticket);
}

void MpiCommunicator::watch(const Ticket& ticket, TicketTimes& times) {
  if (!ticket) return;
  times = {now(), {}};
  pending(ticket).times = &times;
  ++watched_;
}

void MpiCommunicator::note_end(Pending& slot) {
  if (slot.times == nullptr) return;
  slot.times->end = now();
  slot.times = nullptr;
  --watched_;
}

void MpiCommunicator::look_at_watched() {
  if (watched_ == 0) return;
  for (Pending& slot : pending_) {
    if (slot.times != nullptr && done(slot)) note_end(slot);
  }
}

void MpiCommunicator::close(Ticket& ticket) {
  Pending& slot = pending(ticket);
  slot.parts.clear();
  note_end(slot);
  free_.push_back(ticket.id);
  ticket = {};
}

Ticket MpiCommunicator::start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                               Matrix buffer, ReduceOp op) {
  const Members& in = members(group);
  expect_argument(buffer.contiguous(), "start_all_reduce_after", "the matrix must be contiguous");
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  if (!in.comm || buffer.empty()) {
    wait(before);
    prepare();
    return {};
  }
  const Ticket ticket = open("MPI_Iallreduce");
  pending(ticket).follows = true;
  followers_.push_back({before, std::move(prepare), group, buffer, op, ticket});
  start_followers();
  return ticket;
}

void MpiCommunicator::start_followers() {
  while (!followers_.empty() && done(followers_.front().before)) {
    Follower next = std::move(followers_.front());
    followers_.pop_front();
    if (next.before) close(next.before);
    next.prepare();
    Pending& slot = pending(next.ticket);
    slot.follows = false;
    if (slot.times != nullptr) slot.times->start = now();
    all_reduce_pieces(members(next.group), next.buffer, next.op, next.ticket);
  }
}

bool MpiCommunicator::done(const Ticket& ticket) {
  return !ticket || done(pending(ticket));
}

bool MpiCommunicator::done(Pending& asked) {
  if (asked.follows) return false;
  return std::all_of(asked.parts.begin(), asked.parts.end(), [&](Part& part) {
    int done = 0;
    check_mpi(MPI_Test(&part.request, &done, MPI_STATUS_IGNORE), asked.call);
    return done != 0;
  });
}

void MpiCommunicator::progress() {
  if (free_.size() == pending_.size()) return;  // nothing is under way
  start_followers();
  drive_mpi();
  look_at_watched();
}

}  // namespace plumbline
