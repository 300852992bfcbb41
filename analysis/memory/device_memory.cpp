#include "analysis/memory/device_memory.hpp"

#include <algorithm>
#include <set>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// Groups with the same members share a communicator, except those of vocabulary parallelism and between
/// optimizer instances, which keep orders of their own.
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

Bytes margin_of(Bytes tensors, double share) {
  return {static_cast<std::int64_t>(share * static_cast<double>(tensors.value))};
}

}  // namespace

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

RankDeviceMemory process_memory(const Layout& layout, const std::vector<int>& ends,
                                const DeviceOverhead& overhead, int rank, int context_ring) {
  RankDeviceMemory process;
  process.rank = rank;
  process.context = overhead.context;
  process.libraries = overhead.libraries;
  process.kernels = overhead.kernels;
  process.groups = group_communicators(layout, rank);
  const auto pipeline = static_cast<std::size_t>(layout.coordinates(rank).pipeline);
  process.channels = ends.at(pipeline) + (context_ring > 1 ? 2 : 0);
  if (process.groups + process.channels > 0) {
    process.nccl =
        overhead.nccl_first + overhead.nccl_group * process.groups + overhead.nccl_channel * process.channels;
  }
  return process;
}

Bytes room_for_tensors(Bytes device, const RankDeviceMemory& process, double allocator_share) {
  const Bytes left = device - process.outside_tensors();
  Bytes room{static_cast<std::int64_t>(static_cast<double>(left.value) / (1 + allocator_share))};
  while (room + margin_of(room, allocator_share) > left && room.value > 0) room -= Bytes{1};
  while (room + Bytes{1} + margin_of(room + Bytes{1}, allocator_share) <= left) room += Bytes{1};
  return std::max(room, Bytes{1});
}

const RankDeviceMemory& DeviceMemoryPrediction::fullest() const {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const auto& a, const auto& b) { return a.needed() < b.needed(); });
}

Bytes DeviceMemoryPrediction::budget() const {
  return room_for_tensors(device, fullest(), allocator_share);
}

std::optional<DeviceMemoryPrediction> predict_device_memory(const Layout& layout,
                                                            const std::vector<int>& ends,
                                                            const DeviceOverhead& overhead,
                                                            const MemoryPrediction& memory,
                                                            double allocator_share, int context_ring) {
  if (!overhead.known() || memory.ranks.empty()) return std::nullopt;
  DeviceMemoryPrediction prediction;
  prediction.device = overhead.device;
  prediction.measured = overhead.measured;
  prediction.ranks_alike = memory.ranks_alike;
  prediction.allocator_share = allocator_share;
  prediction.ranks.reserve(memory.ranks.size());
  for (const RankMemory& row : memory.ranks) {
    RankDeviceMemory rank = process_memory(layout, ends, overhead, row.rank, context_ring);
    rank.tensors = row.peak.total();
    rank.margin = margin_of(rank.tensors, allocator_share);
    prediction.ranks.push_back(rank);
  }
  return prediction;
}

}  // namespace plumbline
