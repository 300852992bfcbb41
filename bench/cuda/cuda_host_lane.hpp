// Copies between device and host on a stream of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/backends/nccl/device_lanes.hpp"
#include "core/run/host_lane.hpp"

namespace plumbline {

/// Pinned memory, and copies that start after the work submitted so far to `compute`, the stream of the
/// operators. Work submitted there after wait() follows them. The host waits for nothing. `compute` must
/// outlive it. `lanes`, if given, gets the copies started before a wait as one copy.
std::unique_ptr<HostLane> cuda_host_lane(cudaStream_t compute, DeviceLanes* lanes = nullptr);

}  // namespace plumbline
