// GPU of a rank with its operators, and the options of its communicators.
#pragma once

#include <memory>

#include "bench/cuda/cuda_device.hpp"
#include "bench/cuda/device_memory_watch.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

/// Timeout from the environment. Throws InputError when it is no number of seconds.
WatchdogOptions watchdog_options();

struct CudaRank {
  /// After MPI has been initialised, before any CUDA call. Collective over MPI_COMM_WORLD. Throws InputError
  /// without a usable GPU.
  CudaRank(int world_rank, const CudaOptions& options);

  /// Without channels.
  NcclOptions nccl_options() const;

  DevicePlace place;
  DeviceMemoryWatch device;
  std::unique_ptr<Operators> operators;
};

}  // namespace plumbline
