#include "core/backends/nccl/shared_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kAllowsSharing = 23000;  // NCCL 2.30.0
constexpr int kMostSharing = 2;        // NCCL 2.30's user guide, NCCL_MULTI_RANK_GPU_ENABLE

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

int distinct_devices(const std::vector<std::string>& devices) {
  return static_cast<int>(std::set<std::string>(devices.begin(), devices.end()).size());
}

void require_own_devices(const std::string& host, int ranks, int devices, int world) {
  if (ranks <= devices || ranks == world) return;
  throw InputError(
      fmt::format("backend: found {} ranks and {} GPU{} on {}, expected a GPU for every rank on "
                  "several hosts; change its slots in the hostfile",
                  ranks, devices, devices == 1 ? "" : "s", host));
}

std::string note_of_hidden_devices(const std::vector<std::string>& devices, int visible) {
  const int used = distinct_devices(devices);
  if (visible >= used) return "";
  return fmt::format(
      "note: a rank sees {} of the {} GPUs of its host, so that NCCL may have no P2P between them; show all "
      "to "
      "every rank (Slurm: --gpus-per-node with --gpu-bind=none instead of --gpus-per-task)\n",
      visible, used);
}

void require_sharing(int ranks_on_device, int nccl_version_number) {
  if (nccl_version_number < kAllowsSharing || ranks_on_device <= kMostSharing) return;
  throw InputError(fmt::format(
      "backend: found {0} ranks on one GPU, expected {3} with NCCL {1}.{2}; use fewer ranks, more GPUs, or "
      "backend emulated",
      ranks_on_device, nccl_version_number / 10000, nccl_version_number / 100 % 100, kMostSharing));
}

}  // namespace plumbline
