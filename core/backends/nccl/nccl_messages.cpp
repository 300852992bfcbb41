// Messages of the NCCL communicator, in an order that one queue of the device can follow.
//
// The kernel of a second message cannot start before the first of its channel has been received. Work that
// is requested after it and shares its queue would not start either. If both ends send twice before they
// receive (DualPipe, interleaved on two ranks), neither gets to its receive. So a message leaves when its
// predecessor has been waited for. Earlier, a send leaves together with the next receive (as grouped sends
// and receives of NCCL do), before a wait and before a call that follows another by itself; a receive before
// its own wait.
#include <fmt/format.h>

#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// `peer`: a rank of the communicator.
ncclResult_t call_for(const PointToPoint& message, int peer, ncclComm_t comm, cudaStream_t stream) {
  const Matrix& buffer = message.buffer;
  return message.kind == PointToPoint::Kind::send
             ? ncclSend(buffer.data, count_of(buffer), nccl_type(buffer.dtype), peer, comm, stream)
             : ncclRecv(buffer.data, count_of(buffer), nccl_type(buffer.dtype), peer, comm, stream);
}

}  // namespace

Ticket NcclCommunicator::begin(const PointToPoint& message) {
  const bool sends = message.kind == PointToPoint::Kind::send;
  const Matrix& buffer = message.buffer;
  if (!on_device(buffer.data)) {
    Pending over_mpi;
    over_mpi.control = control_.start(message);
    return open(std::move(over_mpi));
  }
  if (rehearses_) return rehearse(message);
  const std::pair<int, int> ends = sends ? std::pair(rank(), message.peer) : std::pair(message.peer, rank());
  const auto found = channels_.find(ends);
  if (found == channels_.end() && unsent_.takes_direct) {
    const Ticket ticket = open({});
    unsent_.direct.emplace_back(ticket, message);
    return ticket;
  }
  if (found == channels_.end()) {
    throw Error(
        fmt::format("{}: the schedule has no messages from rank {} to rank {}, so there is no NCCL "
                    "communicator for them",
                    sends ? "send" : "receive", ends.first, ends.second));
  }
  Lane& channel = *found->second;
  const Ticket ticket = open({});
  pending_[ticket].channel = &channel;
  const Ticket predecessor = std::exchange(channel.newest, ticket);
  if (predecessor) {
    unsent_.held.push_back({ticket, predecessor, message, &channel});
    return ticket;
  }
  post(ticket, message, channel);
  if (!sends) release_sends();
  return ticket;
}

void NcclCommunicator::post(const Ticket& ticket, const PointToPoint& message, Lane& channel) {
  const bool sends = message.kind == PointToPoint::Kind::send;
  const auto call = [&](ncclComm_t comm, cudaStream_t stream) {
    return call_for(message, sends ? 1 : 0, comm, stream);
  };
  const bool comes_round = !sends && channel.in_ring;
  order(compute_, channel.stream.get());
  Pending pending = enqueue(channel, channel.stream.get(), sends ? "ncclSend" : "ncclRecv", call,
                            comes_round ? LaneGroup(Group::context) : std::nullopt);
  pending.in_layer = channel.in_ring;
  pending.channel = &channel;
  pending_[ticket] = std::move(pending);
}

void NcclCommunicator::post_direct() {
  if (unsent_.direct.empty()) return;
  const auto messages = std::exchange(unsent_.direct, {});
  Lane& lane = *lane_of(Group::world);
  const auto call = [&messages](ncclComm_t comm, cudaStream_t stream) {
    NcclGroup group;
    for (const auto& each : messages)
      group.add([&] { return call_for(each.second, each.second.peer, comm, stream); });
    return group.end();
  };
  order(compute_, lane.stream.get());
  const Pending posted = enqueue(lane, lane.stream.get(), "ncclSend and ncclRecv", call, std::nullopt);
  lane.started = posted.end;
  for (const auto& each : messages) pending_[each.first].end = posted.end;
}

void NcclCommunicator::release(const std::function<bool(const HeldMessage&)>& leaves) {
  std::erase_if(unsent_.held, [&](const HeldMessage& held) {
    if (!leaves(held)) return false;
    post(held.ticket, held.message, *held.channel);
    return true;
  });
}

void NcclCommunicator::release_sends() {
  release([](const HeldMessage& held) { return held.message.kind == PointToPoint::Kind::send; });
}

}  // namespace plumbline
