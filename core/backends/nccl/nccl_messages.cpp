// Messages of the NCCL communicator.
#include <fmt/format.h>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"
#include "core/base/error.hpp"

namespace plumbline {

Ticket NcclCommunicator::message(Matrix buffer, bool sends, int peer, int tag) {
  const char* name = sends ? "send" : "receive";
  if (!buffer.contiguous()) throw Error(fmt::format("{}: the matrix must be contiguous", name));
  if (peer == rank() || peer < 0 || peer >= layout().world()) {
    throw Error(fmt::format("{}: the other end must be another rank of the world", name));
  }
  if (sends) {
    traffic_.messages_sent += 1;
    traffic_.point_to_point_sent += buffer.bytes();
  }
  if (!on_device(buffer.data)) {
    return open({nullptr, sends ? control_.send(buffer, peer, tag) : control_.receive(buffer, peer, tag)});
  }
  const std::pair<int, int> ends = sends ? std::pair(rank(), peer) : std::pair(peer, rank());
  const auto found = channels_.find(ends);
  if (found == channels_.end()) {
    throw Error(
        fmt::format("{}: the schedule has no messages from rank {} to rank {}, so there is no NCCL "
                    "communicator for them",
                    name, ends.first, ends.second));
  }
  const int other = sends ? 1 : 0;
  return start(*found->second, sends ? "ncclSend" : "ncclRecv", [=](ncclComm_t comm, cudaStream_t stream) {
    return sends ? ncclSend(buffer.data, count_of(buffer), nccl_type(buffer.dtype), other, comm, stream)
                 : ncclRecv(buffer.data, count_of(buffer), nccl_type(buffer.dtype), other, comm, stream);
  });
}

Ticket NcclCommunicator::send(Matrix buffer, int to, int tag) {
  return message(buffer, true, to, tag);
}

Ticket NcclCommunicator::receive(Matrix buffer, int from, int tag) {
  return message(buffer, false, from, tag);
}

}  // namespace plumbline
