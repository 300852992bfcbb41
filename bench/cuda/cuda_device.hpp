// GPU of a rank, and the turns of ranks that share one.
#pragma once

#include <functional>
#include <string>

#include "core/backends/mpi/handle.hpp"
#include "core/backends/nccl/shared_gpu.hpp"

namespace plumbline {

/// A device's place on its host's bus, "0000:1A:00.0"; empty when CUDA does not tell. Makes no context.
std::string bus_of(int device);

/// A rank's place on its host.
class DevicePlace {
 public:
  /// Chooses the device: visible devices are dealt out to the host's ranks in turn; a launcher may show each
  /// rank only its own. If ranks share one, the environment of the whole host is set so that NCCL accepts it,
  /// and rank 0 notes it on stderr. The process and its later threads stay on the processors next to the
  /// device, on any core: NCCL's and the watchdog's threads spin alongside. Makes no CUDA context. Collective
  /// over MPI_COMM_WORLD; before the first call of NCCL. Throws InputError without a usable GPU.
  explicit DevicePlace(int world_rank);

  int device() const { return device_; }
  bool shared() const { return sharing_.ranks > 1; }
  /// A number for the device that the ranks of the host agree on.
  int number() const { return sharing_.first; }
  /// The smallest world rank of the host: a name for it.
  int host() const { return host_rank_; }
  /// Waits for all ranks of the host.
  void meet() const;
  /// Calls `work` while no other rank of this device does. Collective over the host.
  void in_turn(const std::function<void()>& work) const;

 private:
  MpiComm host_;
  int device_ = 0;
  DeviceSharing sharing_;
  int host_rank_ = 0;
};

/// Chooses a device, makes it the current one and returns it.
int take_device(int world_rank);

}  // namespace plumbline
