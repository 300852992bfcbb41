#include "analysis/predict/fit.hpp"

#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "core/config/context_ring.hpp"

namespace plumbline {
namespace {

/// 0: all ranks share a node.
int gpus_per_node(const HardwareProfile& hardware) {
  const Accelerator* accelerator = hardware.accelerator();
  return accelerator != nullptr ? accelerator->constants.network.gpus_per_node : 0;
}

/// Communicators of CP rings, on the rank with the most: one per neighbour and direction. With
/// dynamic_context_parallel rings of 2, 4, … ranks share them, and have one more each, from last to first.
int ring_channels(const RunConfig& config) {
  const int ring = context_ring(config.parallel);
  if (ring == 1) return 0;
  int channels = 2;
  for (int size = 2; config.batch.dynamic_context_parallel && size < ring; size *= 2) ++channels;
  return channels;
}

DeviceOverhead overhead_of(const HardwareProfile& hardware, const Software& software) {
  DeviceOverhead overhead = hardware.overhead;
  overhead.connects_all = software.own_step;
  return overhead;
}

}  // namespace

Bytes bound_of_tensors(const RunConfig& config, const HardwareProfile& hardware) {
  return config.machine.memory_budget.value > 0 ? config.machine.memory_budget : hardware.memory;
}

std::optional<DeviceMemoryPrediction> device_memory_of(const RunConfig& config, const std::vector<int>& ends,
                                                       const HardwareProfile& hardware,
                                                       const MemoryPrediction& memory,
                                                       const Software& software) {
  return predict_device_memory(config.layout(), ends, overhead_of(hardware, software), memory,
                               software.memory.allocator_share, ring_channels(config),
                               gpus_per_node(hardware));
}

Fit fit_of(const RunConfig& config, const HardwareProfile& hardware, const MemoryPrediction& memory,
           const std::optional<DeviceMemoryPrediction>& device) {
  Fit fit;
  fit.by_device = config.machine.memory_budget.value == 0 && device.has_value();
  if (fit.by_device) {
    const RankDeviceMemory& rank = device->fullest();
    fit.rank = rank.rank;
    fit.tensors = rank.tensors;
    fit.needed = rank.needed();
    fit.limit = device->device;
    fit.budget = device->budget();
  } else {
    fit.rank = memory.peak_rank;
    fit.tensors = fit.needed = memory.peak;
    fit.limit = fit.budget = bound_of_tensors(config, hardware);
  }
  fit.fits = fit.limit.value == 0 || fit.needed <= fit.limit;
  return fit;
}

Fit fit_of(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
           const MemoryPrediction& memory) {
  return fit_of(config, hardware, memory,
                device_memory_of(config, channel_ends(schedule), hardware, memory, software_of(config)));
}

Bytes tensor_budget(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
                    int rank) {
  if (config.machine.memory_budget.value > 0 || !hardware.overhead.known())
    return bound_of_tensors(config, hardware);
  const Layout layout = config.layout();
  const RankDeviceMemory process =
      process_memory(layout, channel_ends(schedule), overhead_of(hardware, software_of(config)), rank,
                     ring_channels(config), gpus_per_node(hardware));
  return room_for_tensors(hardware.overhead.device, process, software_of(config).memory.allocator_share);
}

}  // namespace plumbline
