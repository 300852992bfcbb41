// Collectives of the NCCL communicator.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/nccl_types.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

void expect_buffer(const Matrix& buffer, const char* call) {
  expect_argument(buffer.contiguous(), call, "the matrix must be contiguous");
}

/// Checks an all-gather (part, whole) or reduce-scatter (whole, part) pair; `whole` is members × `part`.
void expect_pair(const Matrix& part, const Matrix& whole, std::size_t members, const char* call) {
  expect_argument(part.contiguous() && whole.contiguous(), call, "the matrices must be contiguous");
  expect_argument(part.dtype == whole.dtype, call, "input and output must have one element type");
  expect_argument(whole.elements() == part.elements() * static_cast<std::int64_t>(members), call,
                  "the larger matrix must have members x the elements of the smaller one");
}

auto all_reduce_call(const Matrix& buffer, ReduceOp op) {
  return [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(buffer.data, buffer.data, count_of(buffer), nccl_type(buffer.dtype), nccl_op(op),
                         comm, stream);
  };
}

auto all_gather_call(const Matrix& input, const Matrix& output) {
  return [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(input.data, output.data, count_of(input), nccl_type(input.dtype), comm, stream);
  };
}

auto reduce_scatter_call(const Matrix& input, const Matrix& output) {
  return [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(input.data, output.data, count_of(output), nccl_type(input.dtype), ncclSum, comm,
                             stream);
  };
}

auto broadcast_call(const Matrix& buffer, int root) {
  return [=](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(buffer.data, buffer.data, count_of(buffer), nccl_type(buffer.dtype), root, comm,
                         stream);
  };
}

}  // namespace

void NcclCommunicator::count(Group group, Bytes GroupTraffic::*kind, Bytes bytes) {
  if (lane_of(group) != nullptr) traffic_.of(group).add(kind, bytes);
}

void NcclCommunicator::copy(const Matrix& input, const Matrix& output) const {
  if (input.data == output.data) return;
  check_cuda(cudaMemcpyAsync(output.data, input.data, static_cast<std::size_t>(input.bytes().value),
                             cudaMemcpyDeviceToDevice, compute_),
             "cudaMemcpyAsync");
}

void NcclCommunicator::on_compute_stream(Group group, Lane& lane, const char* name, const Call& call) {
  if (group != Group::tensor) {
    (void)enqueue(lane, compute_, name, call);
    return;
  }
  if (timed_in_use_ == timed_.size()) timed_.push_back(std::make_unique<TimedCollective>());
  const TimedCollective& timed = *timed_[timed_in_use_++];
  check_cuda(cudaEventRecord(timed.begin.get(), compute_), "cudaEventRecord");
  (void)enqueue(lane, compute_, name, call);
  check_cuda(cudaEventRecord(timed.end.get(), compute_), "cudaEventRecord");
}

void NcclCommunicator::all_reduce(Group group, Matrix buffer, ReduceOp op) {
  expect_buffer(buffer, "all_reduce");
  Lane* lane = lane_of(group);
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  if (lane == nullptr || buffer.empty()) return;
  if (!on_device(buffer.data)) {
    return on_host(group, "all-reduce of host memory", [&] { control_.all_reduce(group, buffer, op); });
  }
  on_compute_stream(group, *lane, "ncclAllReduce", all_reduce_call(buffer, op));
}

Ticket NcclCommunicator::start_all_reduce(Group group, Matrix buffer, ReduceOp op) {
  expect_buffer(buffer, "start_all_reduce");
  Lane* lane = lane_of(group);
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  if (lane == nullptr || buffer.empty()) return {};
  return start(*lane, "ncclAllReduce", all_reduce_call(buffer, op));
}

void NcclCommunicator::all_gather(Group group, Matrix input, Matrix output) {
  Lane* lane = lane_of(group);
  expect_pair(input, output, groups_.of(group).ranks.size(), "all_gather");
  count(group, &GroupTraffic::all_gathered, output.bytes());
  if (input.empty()) return;
  if (lane == nullptr) return copy(input, output);
  on_compute_stream(group, *lane, "ncclAllGather", all_gather_call(input, output));
}

Ticket NcclCommunicator::start_all_gather(Group group, Matrix input, Matrix output) {
  Lane* lane = lane_of(group);
  expect_pair(input, output, groups_.of(group).ranks.size(), "start_all_gather");
  count(group, &GroupTraffic::all_gathered, output.bytes());
  if (input.empty()) return {};
  if (lane == nullptr) {
    copy(input, output);
    return {};
  }
  return start(*lane, "ncclAllGather", all_gather_call(input, output));
}

void NcclCommunicator::reduce_scatter(Group group, Matrix input, Matrix output) {
  Lane* lane = lane_of(group);
  expect_pair(output, input, groups_.of(group).ranks.size(), "reduce_scatter");
  count(group, &GroupTraffic::reduce_scattered, input.bytes());
  if (input.empty()) return;
  if (lane == nullptr) return copy(input, output);
  on_compute_stream(group, *lane, "ncclReduceScatter", reduce_scatter_call(input, output));
}

Ticket NcclCommunicator::start_reduce_scatter(Group group, Matrix input, Matrix output) {
  Lane* lane = lane_of(group);
  expect_pair(output, input, groups_.of(group).ranks.size(), "start_reduce_scatter");
  count(group, &GroupTraffic::reduce_scattered, input.bytes());
  if (input.empty()) return {};
  if (lane == nullptr) {
    copy(input, output);
    return {};
  }
  return start(*lane, "ncclReduceScatter", reduce_scatter_call(input, output));
}

int NcclCommunicator::root_of(Group group, int root_world_rank, const char* call) const {
  const std::vector<int>& ranks = groups_.of(group).ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), root_world_rank);
  expect_argument(found != ranks.end(), call, "the root must be in the group");
  return static_cast<int>(found - ranks.begin());
}

void NcclCommunicator::broadcast(Group group, int root_world_rank, Matrix buffer) {
  expect_buffer(buffer, "broadcast");
  Lane* lane = lane_of(group);
  const int root = root_of(group, root_world_rank, "broadcast");
  count(group, &GroupTraffic::broadcast, buffer.bytes());
  if (lane == nullptr || buffer.empty()) return;
  on_compute_stream(group, *lane, "ncclBroadcast", broadcast_call(buffer, root));
}

Ticket NcclCommunicator::start_broadcast(Group group, int root_world_rank, Matrix buffer) {
  expect_buffer(buffer, "start_broadcast");
  Lane* lane = lane_of(group);
  const int root = root_of(group, root_world_rank, "start_broadcast");
  count(group, &GroupTraffic::broadcast, buffer.bytes());
  if (lane == nullptr || buffer.empty()) return {};
  return start(*lane, "ncclBroadcast", broadcast_call(buffer, root));
}

Ticket NcclCommunicator::start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                                Matrix buffer, ReduceOp op) {
  expect_buffer(buffer, "start_all_reduce_after");
  Lane* lane = lane_of(group);
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  if (lane == nullptr || buffer.empty()) {
    wait(before);
    prepare();
    return {};
  }
  Pending put_off;
  put_off.follows = true;
  const Ticket ticket = open(std::move(put_off));
  followers_.push_back({before, std::move(prepare), lane, buffer, op, ticket});
  start_followers();
  return ticket;
}

void NcclCommunicator::start_followers() {
  const auto ended = [this](const Ticket& before) {
    if (!before) return true;
    const Pending& slot = pending_[static_cast<std::size_t>(before.id)];
    return !slot.follows && (!slot.end || slot.end->reached());
  };
  while (!followers_.empty() && ended(followers_.front().before)) {
    Follower next = std::move(followers_.front());
    followers_.pop_front();
    wait(next.before);
    next.prepare();
    Ticket started = start(*next.lane, "ncclAllReduce", all_reduce_call(next.buffer, next.op));
    // The caller holds a ticket already.
    Pending& slot = pending_[static_cast<std::size_t>(next.ticket.id)];
    TicketTimes* times = slot.times;
    slot = std::move(pending_[static_cast<std::size_t>(started.id)]);
    if (times != nullptr) watch(next.ticket, *times);
    close(started);
  }
}

}  // namespace plumbline
