// The calls of a step as a device runs them through NCCL: one stream per communicator, one communicator per
// pair of ranks and direction, and kernels that launch in the order of the calls or do not.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/training/order/message_order.hpp"

namespace plumbline::training {

/// Streams that share one queue of the device (CUDA_DEVICE_MAX_CONNECTIONS 1), or NCCL_LAUNCH_ORDER_IMPLICIT
/// (NCCL 2.28.9, src/enqueue.cc): a kernel does not start before the previously requested one has, whatever
/// its communicator.
enum class Launches { as_streams_allow, in_order_of_calls };

/// A rank's calls as the NCCL communicator passes them on: a message whose predecessor on its channel has not
/// been waited for is held back (core/backends/nccl/nccl_messages.cpp).
RankCalls held_back(const RankCalls& calls);

/// Streams that a rank's calls use, by name.
std::set<std::string> lanes_of(std::size_t rank, const RankCalls& calls);

/// Place where the ranks hang, or a meeting of calls that do not match: one line; empty when all get to the
/// end. The host never waits. A kernel starts when the compute stream has reached its call and the kernel
/// before it in its stream is done, as is the call that it follows. It is done when its counterparts have
/// started, as for a message that is too large for NCCL's buffers.
std::string find_hang_on_device(const std::vector<RankCalls>& ranks, Launches launches);

}  // namespace plumbline::training
