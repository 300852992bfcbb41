#include "core/backends/nccl/shared_gpu.hpp"

namespace plumbline {
namespace {

constexpr int kAllowsSharing = 23000;  // NCCL 2.30.0

}  // namespace

DeviceChoice choose_device(int local_rank, int local_ranks, int devices) {
  const int device = local_rank % devices;
  // Ranks device, device + devices, … use it.
  return {device, device + devices < local_ranks};
}

std::vector<std::pair<std::string, std::string>> shared_gpu_settings(int world_rank,
                                                                     int nccl_version_number) {
  if (nccl_version_number >= kAllowsSharing) return {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
  return {{"NCCL_HOSTID", "plumbline-rank-" + std::to_string(world_rank)},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_NET", "Socket"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_NVLS_ENABLE", "0"}};
}

}  // namespace plumbline
