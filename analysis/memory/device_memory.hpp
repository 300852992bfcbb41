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
  Bytes nccl;      // nccl_first + groups · nccl_group + channels · nccl_channel; 0 for a rank on its own
  int groups = 0;  // communicators of groups
  int channels =
      0;  // communicators to and from other pipeline ranks, and neighbours in a ring, one per direction
  Bytes outside_tensors() const { return context + libraries + kernels + nccl; }
  Bytes total() const { return tensors + outside_tensors(); }
};

struct DeviceMemoryPrediction {
  Bytes device;                         // memory of one device
  bool measured = false;                // the figures besides the tensors come from `calibrate`
  std::vector<RankDeviceMemory> ranks;  // by pipeline rank
  int ranks_alike = 1;                  // world ranks of each: its tensor and data ranks

  /// The first rank with the largest total.
  const RankDeviceMemory& fullest() const;
  bool fits() const { return fullest().total() <= device; }
  /// What the device has left for tensors of that rank; at least 1 byte, for 0 means no bound elsewhere.
  Bytes budget() const;
};

/// The sum of a rank's tensors and of what the profile says about a process, with one communicator for every
/// group of two or more members and one per direction for every pair of pipeline ranks that the schedule's
/// transfers connect, and for the neighbours in a ring of `context_ring` ranks of a sequence (1: there is none), as
/// core/backends/nccl/nccl_communicator.hpp describes it. What an allocator reserves beyond the tensors is not in it.
/// Nothing when the profile knows no device. A device holds one rank.
std::optional<DeviceMemoryPrediction> predict_device_memory(const Layout& layout, const Schedule& schedule,
                                                            const DeviceOverhead& overhead,
                                                            const MemoryPrediction& memory,
                                                            int context_ring = 1);

}  // namespace plumbline
