#include "core/backends/nccl/shared_gpu.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constexpr int kAllowsSharing = 23000;  // NCCL 2.30.0

}  // namespace

DeviceSharing sharing_of(const std::vector<std::string>& devices, int local_rank) {
  const auto begin = devices.begin();
  const auto own = begin + local_rank;
  const auto ranks_of = [&](const std::string& device) {
    return static_cast<int>(std::count(begin, devices.end(), device));
  };
  DeviceSharing sharing;
  sharing.first = static_cast<int>(std::find(begin, devices.end(), *own) - begin);
  sharing.turn = static_cast<int>(std::count(begin, own, *own));
  sharing.ranks = ranks_of(*own);
  for (const std::string& device : devices) sharing.turns = std::max(sharing.turns, ranks_of(device));
  return sharing;
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
