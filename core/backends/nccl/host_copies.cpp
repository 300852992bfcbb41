#include "core/backends/nccl/host_copies.hpp"

#include <thread>

#include "core/backends/nccl/check.hpp"
#include "core/backends/nccl/device_events.hpp"

namespace plumbline {
namespace {

std::size_t bytes_of(const Matrix& x) {
  return static_cast<std::size_t>(x.bytes().value);
}

/// A matrix like `x` in `memory`.
Matrix in_host_memory(const Matrix& x, std::vector<std::byte>& memory) {
  memory.resize(bytes_of(x));
  return {memory.data(), x.rows, x.cols, x.dtype};
}

void wait_for(cudaStream_t stream, const HostCopies::Meanwhile& meanwhile) {
  const DeviceEvent reached;
  check_cuda(cudaEventRecord(reached.get(), stream), "cudaEventRecord");
  for (cudaError_t state = cudaErrorNotReady; state == cudaErrorNotReady;) {
    state = cudaEventQuery(reached.get());
    if (state != cudaErrorNotReady) check_cuda(state, "cudaEventQuery");
    if (meanwhile) meanwhile();
    std::this_thread::yield();
  }
}

}  // namespace

Collective HostCopies::unread(const Collective& call) {
  const bool in_place = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast;
  Collective copied = call;
  input_ = call.input;
  output_ = call.output;
  copied.input = in_host_memory(call.input, read_);
  copied.output = in_place ? copied.input : in_host_memory(call.output, written_);
  return copied;
}

Collective HostCopies::of(const Collective& call, cudaStream_t stream, const Meanwhile& meanwhile) {
  Collective copied = unread(call);
  fill(stream, meanwhile);
  return copied;
}

PointToPoint HostCopies::of(const PointToPoint& message, cudaStream_t stream, const Meanwhile& meanwhile) {
  PointToPoint copied = message;
  copied.buffer = in_host_memory(message.buffer, read_);
  if (message.kind == PointToPoint::Kind::send) {
    input_ = message.buffer;
    fill(stream, meanwhile);
  } else {
    output_ = message.buffer;
  }
  return copied;
}

void HostCopies::fill(cudaStream_t stream, const Meanwhile& meanwhile) {
  check_cuda(cudaMemcpyAsync(read_.data(), input_.data, bytes_of(input_), cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
  wait_for(stream, meanwhile);
}

void HostCopies::deliver(cudaStream_t stream, const Meanwhile& meanwhile) const {
  if (output_.data == nullptr) return;
  const std::vector<std::byte>& from = written_.empty() ? read_ : written_;
  check_cuda(cudaMemcpyAsync(output_.data, from.data(), from.size(), cudaMemcpyHostToDevice, stream),
             "cudaMemcpyAsync");
  wait_for(stream, meanwhile);
}

}  // namespace plumbline
