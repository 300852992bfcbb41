#include "analysis/memory/device_memory.hpp"

#include <algorithm>
#include <set>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// Communicators of groups, and their memory.
struct GroupCommunicators {
  int count = 0;
  Bytes bytes;
};

/// Groups with the same members share a communicator, except those of vocabulary parallelism and between
/// optimizer instances, which keep orders of their own.
GroupCommunicators group_communicators(const Layout& layout, const DeviceOverhead& overhead, int rank,
                                       int gpus_per_node) {
  GroupCommunicators found;
  std::vector<GroupExtent> shared;
  for (int i = 0; i < kGroups; ++i) {
    const auto group = static_cast<Group>(i);
    const GroupExtent extent = layout.extent(group, rank);
    if (extent.size() < 2) continue;
    if (group < Group::vocab_hidden && group != Group::between_instances) {
      if (std::find(shared.begin(), shared.end(), extent) != shared.end()) continue;
      shared.push_back(extent);
    }
    ++found.count;
    const int local = members_on_node(layout, group, rank, gpus_per_node);
    found.bytes +=
        gpus_per_node < 1 ? overhead.nccl_group : group_communicator(overhead, local, local >= extent.size());
  }
  return found;
}

/// Number of i in [0, count) with low <= first + i · stride < high.
std::int64_t hits(std::int64_t first, std::int64_t count, std::int64_t stride, std::int64_t low,
                  std::int64_t high) {
  const auto before = [&](std::int64_t bound) {  // i with first + i · stride < bound
    return bound <= first ? 0 : std::min(count, (bound - first + stride - 1) / stride);
  };
  return before(high) - before(low);
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

Bytes group_communicator(const DeviceOverhead& overhead, int local, bool inside) {
  constexpr int kConnection = 12;  // MiB per channel
  constexpr int kRing = 24 * kConnection;
  constexpr int kAlgorithms = 2;  // rings and trees
  constexpr int kOfHead = 32;
  constexpr int kMostHeads = 8;
  const int heads = local > 2 ? std::min(local, kMostHeads) : 0;
  const int connected = overhead.connects_all ? kAlgorithms : 1;
  const int mebibytes = connected * (inside ? kRing : 2 * kConnection * std::min(4 * local, 16)) +
                        (inside ? kOfHead * heads : 0);
  return {overhead.nccl_group.value * mebibytes / (kAlgorithms * kRing + kOfHead * kMostHeads)};
}

Bytes message_communicator(const DeviceOverhead& overhead) {
  constexpr int kOurs = 2 * 2 * 12 + 7;  // rings and trees of two channels, and the message's buffers
  constexpr int kBlocks = 8 * 12;
  return overhead.connects_all ? overhead.nccl_channel : overhead.nccl_channel * kBlocks / kOurs;
}

int members_on_node(const Layout& layout, Group group, int rank, int gpus_per_node) {
  const GroupExtent extent = layout.extent(group, rank);
  if (gpus_per_node < 1) return static_cast<int>(extent.size());
  const std::int64_t stage = std::int64_t{1} * layout.tensor * layout.data;  // ranks of a pipeline rank
  const std::int64_t low = rank / gpus_per_node * std::int64_t{gpus_per_node};
  const std::int64_t high = low + gpus_per_node;
  const auto& [first, count, stride] = extent.pipeline;
  std::int64_t members = 0;
  // Only pipeline ranks with a place on the node.
  for (std::int64_t i = std::max<std::int64_t>(0, (low / stage - first) / stride); i < count; ++i) {
    const std::int64_t begin = (first + i * stride) * stage;
    if (begin >= high) break;
    members += hits(begin + extent.stage.first, extent.stage.count, extent.stage.stride, low, high);
  }
  return static_cast<int>(members);
}

RankDeviceMemory process_memory(const Layout& layout, const std::vector<int>& ends,
                                const DeviceOverhead& overhead, int rank, int ring_channels,
                                int gpus_per_node) {
  RankDeviceMemory process;
  process.rank = rank;
  process.context = overhead.context;
  process.libraries = overhead.libraries;
  process.kernels = overhead.kernels;
  const GroupCommunicators groups = group_communicators(layout, overhead, rank, gpus_per_node);
  process.groups = groups.count;
  const auto pipeline = static_cast<std::size_t>(layout.coordinates(rank).pipeline);
  process.channels = ends.at(pipeline) + ring_channels;
  if (process.groups + process.channels > 0) {
    process.nccl = overhead.nccl_first + groups.bytes + message_communicator(overhead) * process.channels;
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

std::optional<DeviceMemoryPrediction> predict_device_memory(
    const Layout& layout, const std::vector<int>& ends, const DeviceOverhead& overhead,
    const MemoryPrediction& memory, double allocator_share, int ring_channels, int gpus_per_node) {
  if (!overhead.known() || memory.ranks.empty()) return std::nullopt;
  DeviceMemoryPrediction prediction;
  prediction.device = overhead.device;
  prediction.measured = overhead.measured;
  prediction.ranks_alike = memory.ranks_alike;
  prediction.allocator_share = allocator_share;
  prediction.ranks.reserve(memory.ranks.size());
  for (const RankMemory& row : memory.ranks) {
    RankDeviceMemory rank = process_memory(layout, ends, overhead, row.rank, ring_channels, gpus_per_node);
    rank.tensors = row.peak.total();
    rank.margin = margin_of(rank.tensors, allocator_share);
    prediction.ranks.push_back(rank);
  }
  return prediction;
}

}  // namespace plumbline
