// Messages and tickets of the MPI communicator.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"

namespace plumbline {

Ticket MpiCommunicator::begin(const PointToPoint& message) {
  const bool sends = message.kind == PointToPoint::Kind::send;
  const MPI_Datatype type = mpi_type(message.buffer.dtype);
  const Ticket ticket = open(sends ? "MPI_Isend" : "MPI_Irecv");
  for_pieces(message.buffer, [&](void* data, int count) {
    Part& part = pending_[ticket].parts.emplace_back();
    if (sends) {
      check_mpi(MPI_Isend(data, count, type, message.peer, message.tag, comm(Group::world), &part.request),
                "MPI_Isend");
      return;
    }
    part.expected = count;
    part.type = type;
    check_mpi(MPI_Irecv(data, count, type, message.peer, message.tag, comm(Group::world), &part.request),
              "MPI_Irecv");
  });
  return ticket;
}

Ticket MpiCommunicator::open(const char* call) {
  const Ticket ticket = pending_.open();
  pending_[ticket].call = call;
  return ticket;
}

void MpiCommunicator::finish(Ticket& ticket) {
  if (pending_[ticket].follows) {
    waiter_.until([&] {
      start_followers();
      return !pending_[ticket].follows;
    });
  }
  std::function<void()> meanwhile;
  if (!followers_.empty()) meanwhile = [this] { start_followers(); };
  Pending& waiting = pending_[ticket];
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
  pending_[ticket].times = &times;
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
  for (Pending& slot : pending_.all()) {
    if (slot.times != nullptr && done(slot)) note_end(slot);
  }
}

void MpiCommunicator::close(Ticket& ticket) {
  Pending& slot = pending_[ticket];
  slot.parts.clear();
  note_end(slot);
  pending_.close(ticket);
}

Ticket MpiCommunicator::begin(Follower follower) {
  const Ticket ticket = open("MPI_Iallreduce");
  pending_[ticket].follows = true;
  followers_.push_back({std::move(follower), ticket});
  start_followers();
  return ticket;
}

void MpiCommunicator::start_followers() {
  while (!followers_.empty() && done(followers_.front().follower.before)) {
    PutOff next = std::move(followers_.front());
    followers_.pop_front();
    if (next.follower.before) close(next.follower.before);
    if (next.follower.prepare) next.follower.prepare();
    Pending& slot = pending_[next.ticket];
    slot.follows = false;
    if (slot.times != nullptr) slot.times->start = now();
    add_all_reduce(next.follower.call, next.ticket);
  }
}

bool MpiCommunicator::done(const Ticket& ticket) {
  return !ticket || done(pending_[ticket]);
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
  if (pending_.idle()) return;  // nothing is in progress
  start_followers();
  drive_mpi();
  look_at_watched();
}

}  // namespace plumbline
