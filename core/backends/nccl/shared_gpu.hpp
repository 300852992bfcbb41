// Several ranks on one GPU: good for correctness, order and memory, not for speed. NCCL refuses it unless it
// is told otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// Which device a rank uses.
struct DeviceChoice {
  int device = 0;
  bool shared = false;  // somebody else on this host uses it, too
};

/// Devices are dealt out in turn: rank `local_rank` of `local_ranks` on its host. `devices` must be positive.
DeviceChoice choose_device(int local_rank, int local_ranks, int devices);

/// Environment variables that make NCCL accept ranks that share a GPU; they must be set before its first call
/// in the process.
///
/// NCCL refuses two ranks with one device and one host. Up to 2.29 a name of its own for every process makes
/// them look like ranks on different hosts: messages then go through sockets on the loopback interface, and
/// everything that needs shared memory or direct access stays unused. From 2.30 on NCCL_MULTI_RANK_GPU_ENABLE
/// allows it as such.
std::vector<std::pair<std::string, std::string>> shared_gpu_settings(int world_rank, int nccl_version_number);

}  // namespace plumbline
