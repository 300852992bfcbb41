// Which GPU a rank works on, and how ranks that share one take turns.
#pragma once

#include <functional>

#include "core/backends/mpi/handle.hpp"
#include "core/backends/nccl/shared_gpu.hpp"

namespace plumbline {

/// A rank's place on its host.
class DevicePlace {
 public:
  /// Chooses the device: the host's are dealt out to its ranks in turn. Where ranks share one, the
  /// environment is made such that NCCL accepts it, and rank 0 notes it on stderr. Makes no CUDA context.
  /// Collective over MPI_COMM_WORLD; before the first call of NCCL. Throws InputError without a usable GPU.
  explicit DevicePlace(int world_rank);

  int device() const { return choice_.device; }
  bool shared() const { return choice_.shared; }
  /// The smallest world rank of the host: a name for it.
  int host() const { return host_rank_; }
  /// Waits for all ranks of the host.
  void meet() const;
  /// Calls `work` while no other rank of this device does. Collective over the host.
  void in_turn(const std::function<void()>& work) const;

 private:
  MpiComm host_;
  DeviceChoice choice_;
  int turn_ = 0;
  int turns_ = 1;
  int host_rank_ = 0;
};

/// Chooses a device and makes it the current one.
DeviceChoice take_device(int world_rank);

}  // namespace plumbline
