#include "analysis/memory/device_memory.hpp"

#include <algorithm>
#include <set>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// Groups with the same members share a communicator, but for those of vocabulary parallelism and between instances of the
/// optimizer, which keep orders of their own.
int group_communicators(const Layout& layout, int rank) {
  std::vector<GroupExtent> shared;
  int own = 0;
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const GroupExtent extent = layout.extent(group, rank);
    if (extent.size() < 2) continue;
    if (group >= Group::vocab_hidden || group == Group::between_instances) {
      ++own;
    } else if (std::find(shared.begin(), shared.end(), extent) == shared.end()) {
      shared.push_back(extent);
    }
  }
  return static_cast<int>(shared.size()) + own;
}

/// By pipeline rank: ends of channels, a channel being all messages from one rank to another.
std::vector<int> channel_ends(const Schedule& schedule) {
  std::set<Channel> channels;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (is_send(action.type)) channels.insert(channel_of(schedule, hop_of_transfer(action)));
    }
  }
  std::vector<int> ends(static_cast<std::size_t>(schedule.ranks));
  for (const auto& [from, to] : channels) {
    ++ends.at(static_cast<std::size_t>(from));
    ++ends.at(static_cast<std::size_t>(to));
  }
  return ends;
}

}  // namespace

const RankDeviceMemory& DeviceMemoryPrediction::fullest() const {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const auto& a, const auto& b) { return a.total() < b.total(); });
}

Bytes DeviceMemoryPrediction::budget() const {
  return std::max(device - fullest().outside_tensors(), Bytes{1});
}

std::optional<DeviceMemoryPrediction> predict_device_memory(const Layout& layout, const Schedule& schedule,
                                                            const DeviceOverhead& overhead,
                                                            const MemoryPrediction& memory,
                                                            int context_ring) {
  if (!overhead.known() || memory.ranks.empty()) return std::nullopt;
  DeviceMemoryPrediction prediction;
  prediction.device = overhead.device;
  prediction.measured = overhead.measured;
  prediction.ranks_alike = memory.ranks_alike;
  const std::vector<int> ends = channel_ends(schedule);
  for (const RankMemory& row : memory.ranks) {
    RankDeviceMemory rank;
    rank.tensors = row.peak.total();
    rank.context = overhead.context;
    rank.libraries = overhead.libraries;
    rank.kernels = overhead.kernels;
    rank.groups = group_communicators(layout, row.rank);
    rank.channels = ends.at(static_cast<std::size_t>(row.pipeline_rank)) + (context_ring > 1 ? 2 : 0);
    if (rank.groups + rank.channels > 0) {
      rank.nccl =
          overhead.nccl_first + overhead.nccl_group * rank.groups + overhead.nccl_channel * rank.channels;
    }
    prediction.ranks.push_back(rank);
  }
  return prediction;
}

}  // namespace plumbline
