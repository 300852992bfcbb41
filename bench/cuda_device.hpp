// Which GPU a rank works on.
#pragma once

#include "core/backends/nccl/shared_gpu.hpp"

namespace plumbline {

/// Makes this rank's GPU the current device: the host's devices are dealt out to its ranks in turn. Where
/// ranks share one, the environment is made such that NCCL accepts it, and rank 0 notes it on stderr.
/// Collective over MPI_COMM_WORLD; before the first call of NCCL. Throws InputError without a usable GPU.
DeviceChoice take_device(int world_rank);

}  // namespace plumbline
