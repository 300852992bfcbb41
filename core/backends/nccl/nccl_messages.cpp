// Messages of the NCCL communicator.
#include <fmt/format.h>

#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"
#include "core/base/error.hpp"

namespace plumbline {

Ticket NcclCommunicator::begin(const PointToPoint& message) {
  const bool sends = message.kind == PointToPoint::Kind::send;
  const Matrix& buffer = message.buffer;
  if (!on_device(buffer.data)) {
    Pending over_mpi;
    over_mpi.control = control_.start(message);
    return open(std::move(over_mpi));
  }
  if (rehearses_) return begin_on_host(message);
  const std::pair<int, int> ends = sends ? std::pair(rank(), message.peer) : std::pair(message.peer, rank());
  const auto found = channels_.find(ends);
  if (found == channels_.end()) {
    throw Error(
        fmt::format("{}: the schedule has no messages from rank {} to rank {}, so there is no NCCL "
                    "communicator for them",
                    sends ? "send" : "receive", ends.first, ends.second));
  }
  const int other = sends ? 1 : 0;
  const auto call = [&buffer, sends, other](ncclComm_t comm, cudaStream_t stream) {
    return sends ? ncclSend(buffer.data, count_of(buffer), nccl_type(buffer.dtype), other, comm, stream)
                 : ncclRecv(buffer.data, count_of(buffer), nccl_type(buffer.dtype), other, comm, stream);
  };
  const bool comes_round = !sends && found->second->in_ring;
  const Ticket ticket = begin_in_lane(*found->second, sends ? "ncclSend" : "ncclRecv", call,
                                      comes_round ? LaneGroup(Group::context) : std::nullopt);
  pending_[ticket].in_layer = found->second->in_ring;
  return ticket;
}

}  // namespace plumbline
