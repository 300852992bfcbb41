// A rehearsal of the NCCL communicator: started calls and messages move nothing between ranks. Their results
// are stand-ins of the right size, so that kernels run at their real shapes on finite numbers.
#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"

namespace plumbline {
namespace {

std::size_t bytes_of(const Matrix& x) {
  return static_cast<std::size_t>(x.bytes().value);
}

std::byte* at(const Matrix& x, std::size_t byte) {
  return static_cast<std::byte*>(x.data) + byte;
}

}  // namespace

void NcclCommunicator::rehearse(bool on) {
  rehearses_ = on;
  stand_ins_.reset();
  if (on) stand_ins_ = std::make_unique<StandIns>();
}

void NcclCommunicator::copy_on_device(void* to, const void* from, std::size_t bytes) {
  if (to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_), "cudaMemcpyAsync");
}

Ticket NcclCommunicator::rehearse(const Collective& call) {
  const Matrix& input = call.input;
  const Matrix& output = call.output;
  const std::size_t all = members(call.group).size();
  switch (call.kind) {
    case CollectiveKind::all_gather:
      for (std::size_t i = 0; i < all; ++i)
        copy_on_device(at(output, i * bytes_of(input)), input.data, bytes_of(input));
      break;
    case CollectiveKind::reduce_scatter:
      copy_on_device(output.data,
                     at(input, static_cast<std::size_t>(place_in(call.group, rank())) * bytes_of(output)),
                     bytes_of(output));
      break;
    case CollectiveKind::reduce:
      if (call.root == rank()) copy_on_device(output.data, input.data, bytes_of(output));
      break;
    case CollectiveKind::broadcast:
      if (call.root != rank()) stand_ins_->fill(output, compute_);
      break;
    case CollectiveKind::all_to_all:
      stand_ins_->fill(output, compute_);
      break;
    case CollectiveKind::all_reduce:
      break;  // the own share is there
  }
  return open({});
}

Ticket NcclCommunicator::rehearse(const PointToPoint& message) {
  if (message.kind == PointToPoint::Kind::receive) stand_ins_->fill(message.buffer, compute_);
  return open({});
}

Ticket NcclCommunicator::rehearse(Follower follower) {
  if (follower.before) close(follower.before);
  if (follower.prepare) follower.prepare();
  return rehearse(follower.call);
}

}  // namespace plumbline
