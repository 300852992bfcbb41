// GPU memory of a rank's process: its tensors, and the context, libraries and communicators
// besides them.
#pragma once

#include <optional>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/memory_model.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct RankDeviceMemory {
  Bytes tensors;  // allocated at the rank's peak
  Bytes context;
  Bytes libraries;
  Bytes kernels;
  /// nccl_first + group_communicator() of every group + channels · message_communicator(); 0 for a rank on
  /// its own.
  Bytes nccl;
  int groups = 0;  // communicators of groups
  /// Communicators to and from other pipeline ranks, and neighbours in a ring, one per direction.
  int channels = 0;
  Bytes margin;  // what the allocator of the tensors reserves besides
  int rank = 0;  // world rank, the first of those that are alike
  Bytes outside_tensors() const { return context + libraries + kernels + nccl; }
  /// Device memory: the margin is not in it.
  Bytes total() const { return tensors + outside_tensors(); }
  Bytes needed() const { return total() + margin; }
};

struct DeviceMemoryPrediction {
  Bytes device;                         // memory of one device
  bool measured = false;                // the figures besides the tensors come from `calibrate`
  std::vector<RankDeviceMemory> ranks;  // by pipeline rank
  int ranks_alike = 1;                  // world ranks of each: its tensor and data ranks
  double allocator_share = 0;           // margin of a rank as a share of its tensors

  /// The first rank with the largest need.
  const RankDeviceMemory& fullest() const;
  /// Memory that the device has left for tensors of that rank.
  Bytes budget() const;
};

/// By pipeline rank: ends of channels, a channel being all messages from one rank to another.
std::vector<int> channel_ends(const Schedule& schedule);

/// Memory of the communicator of a group with `local` ranks on every node; `inside`: all of them on one.
/// `nccl_group` is that of eight ranks on a node. A connection has 12 MiB per channel: receive buffers of 0.5
/// + 4.7 + 4 MiB in pieces of 2 MiB, and 2 MiB to send (NCCL's src/init.cc, src/transport/p2p.cc). Within a
/// node: rings of 24 channels, with `connects_all` trees of as many, and NVLS's 32 MiB per rank from three
/// ranks on (src/transport/nvls.cc). Between nodes, of either: two neighbours on at most four channels per
/// local rank, which has one network card, and 16 in all (ncclTopoPostset in src/graph/connect.cc).
Bytes group_communicator(const DeviceOverhead& overhead, int local, bool inside);
/// Memory of the communicator for messages from one rank to another: of backend cuda, or without
/// `connects_all` eight channels of 12 MiB.
Bytes message_communicator(const DeviceOverhead& overhead);

/// Members of `group` on the node of `rank`, nodes being `gpus_per_node` neighbouring world ranks.
int members_on_node(const Layout& layout, Group group, int rank, int gpus_per_node);

/// Memory of a world rank's process besides tensors, which are 0. `ends`, `ring_channels` and
/// `gpus_per_node` as below.
RankDeviceMemory process_memory(const Layout& layout, const std::vector<int>& ends,
                                const DeviceOverhead& overhead, int rank, int ring_channels,
                                int gpus_per_node);

/// Most bytes of tensors that fit a device alongside a process and the allocator's margin. At least 1, since
/// 0 means no bound elsewhere.
Bytes room_for_tensors(Bytes device, const RankDeviceMemory& process, double allocator_share);

/// Sum of a rank's tensors, the profile's memory of a process, and the margin of an allocator that reserves a
/// further `allocator_share` of the tensors. Communicators, as in core/backends/nccl/nccl_communicator.hpp:
/// one for every group of two or more members; one per direction for every pair of pipeline ranks that
/// exchange messages; `ring_channels` of CP rings. `ends`: channel_ends(). `gpus_per_node`: 0 if all ranks
/// share a node. Nothing when the profile knows no device. A device holds one rank.
std::optional<DeviceMemoryPrediction> predict_device_memory(
    const Layout& layout, const std::vector<int>& ends, const DeviceOverhead& overhead,
    const MemoryPrediction& memory, double allocator_share, int ring_channels = 0, int gpus_per_node = 0);

}  // namespace plumbline
