// The calls of a step as a device runs them through NCCL: one stream per communicator, one communicator per
// pair of ranks and direction, and kernels that launch in the order of the calls or do not.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/training/order/message_order.hpp"

namespace plumbline::training {

/// NCCL_LAUNCH_ORDER_IMPLICIT: a kernel does not start before the previously requested one has, whatever its
/// communicator (NCCL 2.28.9, src/enqueue.cc).
enum class Launches { as_streams_allow, in_order_of_calls };

/// Place where the ranks hang, or a meeting of calls that do not match: one line; empty when all get to the
/// end. The host never waits. A kernel starts when the compute stream has reached its call and the kernel
/// before it in its stream is done, as is the call that it follows. It is done when its counterparts have
/// started, as for a message that is too large for NCCL's buffers.
std::string find_hang_on_device(const std::vector<RankCalls>& ranks, Launches launches);

}  // namespace plumbline::training
