// Several ranks on one GPU: good for correctness, order and memory, not for speed. NCCL refuses it by
// default.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// Sharing of a host's devices by its ranks, as one of them sees it.
struct DeviceSharing {
  int first = 0;  // local rank of the first on this rank's device: a name for the device
  int turn = 0;   // ranks before this one on its device
  int ranks = 1;  // on its device
  int turns = 1;  // the most ranks that any device of the host has
};

/// `devices` names the device of each local rank.
DeviceSharing sharing_of(const std::vector<std::string>& devices, int local_rank);

/// Environment variables that make NCCL accept ranks that share a GPU; they must be set before its first call
/// in the process.
///
/// NCCL refuses two ranks with one device and one host. Up to 2.29 a host name of its own for every process
/// makes them look like ranks on different hosts. Messages then go through loopback sockets; shared memory
/// and direct access stay unused. From 2.30 on NCCL_MULTI_RANK_GPU_ENABLE allows two ranks on a GPU. Its
/// documentation: "up to 2 ranks per GPU"; with more it may hang.
std::vector<std::pair<std::string, std::string>> shared_gpu_settings(int world_rank, int nccl_version_number);

int distinct_devices(const std::vector<std::string>& devices);

/// Throws InputError, with the host's name, when ranks of one host of several share a GPU: the others would
/// wait for them. `devices`, `ranks`: of this host.
void require_own_devices(const std::string& host, int ranks, int devices, int world);

/// A note when each rank sees fewer devices than its host's ranks use together, as with Slurm's
/// --gpus-per-task: NCCL then cannot use P2P between them. Else "".
std::string note_of_hidden_devices(const std::vector<std::string>& devices, int visible);

/// Throws InputError when the loaded NCCL does not support this many ranks on one GPU.
void require_sharing(int ranks_on_device, int nccl_version_number);

}  // namespace plumbline
