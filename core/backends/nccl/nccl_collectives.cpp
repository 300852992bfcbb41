// Collectives of the NCCL communicator, and the reductions that follow them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"

namespace plumbline {
namespace {

/// NCCL's function for a collective, as people know it.
const char* nccl_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "ncclAllGather";
    case CollectiveKind::reduce_scatter:
      return "ncclReduceScatter";
    case CollectiveKind::broadcast:
      return "ncclBroadcast";
    case CollectiveKind::reduce:
      return "ncclReduce";
    case CollectiveKind::all_to_all:
      return "ncclSend and ncclRecv";
    case CollectiveKind::all_reduce:
      break;
  }
  return "ncclAllReduce";
}

/// All-to-all as grouped messages (NCCL's documentation, "Point-to-point communication": all-to-all). Empty
/// pieces are skipped.
ncclResult_t exchange(const Collective& call, ncclComm_t comm, cudaStream_t stream) {
  int ranks = 0;
  const ncclResult_t counted = ncclCommCount(comm, &ranks);
  if (counted != ncclSuccess) return counted;
  const ncclDataType_t type = nccl_type(call.input.dtype);
  const std::size_t equal = count_of(call.input) / static_cast<std::size_t>(ranks);
  const auto count = [&](std::span<const std::int64_t> pieces, int peer) {
    return call.uneven() ? static_cast<std::size_t>(pieces[static_cast<std::size_t>(peer)]) : equal;
  };
  const auto size = static_cast<std::size_t>(size_of(call.input.dtype));
  const auto* from = static_cast<const std::byte*>(call.input.data);
  auto* to = static_cast<std::byte*>(call.output.data);
  NcclGroup group;
  for (int peer = 0; peer < ranks; ++peer) {
    const std::size_t sent = count(call.sent, peer);
    if (sent > 0) group.add([&] { return ncclSend(from, sent, type, peer, comm, stream); });
    const std::size_t received = count(call.received, peer);
    if (received > 0) group.add([&] { return ncclRecv(to, received, type, peer, comm, stream); });
    from += sent * size;
    to += received * size;
  }
  return group.end();
}

/// True if a call with host memory goes over MPI: sums, and counts of rows that are about to be sent. All
/// members decide alike.
bool goes_over_mpi(const Collective& call) {
  const bool taken = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::all_gather ||
                     (call.kind == CollectiveKind::all_to_all && !call.uneven());
  return call.awaited && taken && !on_device(call.input.data);
}

/// True if a layer needs the results of the group's collectives before it continues.
bool within_layers(Group group) {
  return group == Group::tensor || group == Group::context || group == Group::context_heads ||
         group == Group::expert;
}

/// `root` is the broadcast's or reduce's rank in the communicator.
ncclResult_t call_nccl(const Collective& call, int root, ncclComm_t comm, cudaStream_t stream) {
  const void* input = call.input.data;
  void* output = call.output.data;
  const ncclDataType_t type = nccl_type(call.input.dtype);
  switch (call.kind) {
    case CollectiveKind::all_gather:
      return ncclAllGather(input, output, count_of(call.input), type, comm, stream);
    case CollectiveKind::reduce_scatter:
      return ncclReduceScatter(input, output, count_of(call.output), type, ncclSum, comm, stream);
    case CollectiveKind::broadcast:
      return ncclBroadcast(input, output, count_of(call.input), type, root, comm, stream);
    case CollectiveKind::reduce:
      return ncclReduce(input, output, count_of(call.input), type, ncclSum, root, comm, stream);
    case CollectiveKind::all_to_all:
      return exchange(call, comm, stream);
    case CollectiveKind::all_reduce:
      break;
  }
  return ncclAllReduce(input, output, count_of(call.input), type, nccl_op(call.op), comm, stream);
}

}  // namespace

Ticket NcclCommunicator::begin(const Collective& call) {
  if (goes_over_mpi(call)) {
    on_host(call.group, "collective of host memory", [&] { control_.run(call); });
    return {};
  }
  if (rehearses_ && !call.awaited) return rehearse(call);
  Lane& lane = *lane_of(call.group);
  const int root = call.root >= 0 ? place_in(call.group, call.root) : 0;
  const Call enqueued = [&call, root](ncclComm_t comm, cudaStream_t stream) {
    return call_nccl(call, root, comm, stream);
  };
  if (!call.awaited) {
    const Ticket ticket = begin_in_lane(lane, nccl_name(call.kind), enqueued, call.group);
    pending_[ticket].in_layer = within_layers(call.group);
    lane.started = pending_[ticket].end;
    return ticket;
  }
  on_compute_stream(call.group, lane, nccl_name(call.kind), enqueued);
  return {};
}

void NcclCommunicator::on_compute_stream(Group group, Lane& lane, const char* name, const Call& call) {
  const auto put = [&] {
    if (lane.started) {
      check_cuda(cudaStreamWaitEvent(compute_, lane.started->event.get(), 0), "cudaStreamWaitEvent");
      lane.started.reset();
    }
    (void)enqueue(lane, compute_, name, call, group);
  };
  if (within_layers(group)) return timed(put);
  put();
}

void NcclCommunicator::timed(const std::function<void()>& call) {
  if (!counts_tensor_time_) return call();
  if (timed_in_use_ == timed_.size()) timed_.push_back(std::make_unique<TimedCollective>());
  const TimedCollective& events = *timed_[timed_in_use_++];
  check_cuda(cudaEventRecord(events.begin.get(), compute_), "cudaEventRecord");
  call();
  check_cuda(cudaEventRecord(events.end.get(), compute_), "cudaEventRecord");
}

void NcclCommunicator::copy(const Collective& call) {
  if (goes_over_mpi(call)) return control_.run(call);
  check_cuda(
      cudaMemcpyAsync(call.output.data, call.input.data, static_cast<std::size_t>(call.input.bytes().value),
                      cudaMemcpyDeviceToDevice, compute_),
      "cudaMemcpyAsync");
}

void NcclCommunicator::barrier(Group group) {
  check_cuda(cudaStreamSynchronize(compute_), "cudaStreamSynchronize");
  on_host(group, "barrier", [&] { control_.barrier(group); });
}

void NcclCommunicator::on_host(Group group, const char* name, const std::function<void()>& call) {
  watchdog_->check();
  std::shared_ptr<EndEvent> end = ends_.take();
  if (const Lane* lane = lane_of(group)) watchdog_->started(lane->number, name, end);
  call();
  end->record(compute_);
}

Seconds NcclCommunicator::take_tensor_time() {
  Seconds total;
  for (std::size_t i = 0; i < timed_in_use_; ++i) {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, timed_[i]->begin.get(), timed_[i]->end.get()),
               "cudaEventElapsedTime");
    total += {static_cast<double>(milliseconds) * 1e-3};
  }
  timed_in_use_ = 0;
  return total;
}

Ticket NcclCommunicator::begin(Follower follower) {
  if (rehearses_) return rehearse(std::move(follower));
  release_sends();  // the device starts the call behind another one, and these would wait for it
  const cudaStream_t lane = lane_of(follower.call.group)->stream.get();
  const cudaStream_t side = side_.run ? side_.stream : compute_;
  const cudaStream_t next = follower.prepare ? side : lane;
  if (follower.before) {
    const std::shared_ptr<EndEvent> end = pending_[follower.before].end;
    if (end) check_cuda(cudaStreamWaitEvent(next, end->event.get(), 0), "cudaStreamWaitEvent");
    close(follower.before);
  }
  if (follower.prepare) {
    if (side_.run) {
      order(compute_, side);
      side_.run(follower.prepare);
    } else {
      follower.prepare();
    }
    order(side, lane);
  }
  return begin(follower.call);
}

}  // namespace plumbline
