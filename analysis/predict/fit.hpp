// Decides if a step fits: the one verdict that predict, search, matrix, oom and every advice give.
#pragma once

#include <optional>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/memory/device_memory.hpp"
#include "analysis/memory/memory_model.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct Fit {
  bool fits = true;
  /// The device decides: device memory and allocator margin are compared with its memory. Otherwise tensors
  /// are compared with memory_budget, or with the memory of a profile that lacks the memory of a process.
  bool by_device = false;
  int rank = 0;   // world rank that needs most
  Bytes tensors;  // of that rank, at their peak
  Bytes needed;   // what is compared with `limit`
  Bytes limit;    // memory_budget, else the device's memory; 0: no bound
  Bytes budget;   // what `limit` leaves for tensors of that rank; 0: no bound
};

/// No step with more tensors on a rank fits: memory_budget, else the device's memory; 0: no bound.
Bytes bound_of_tensors(const RunConfig& config, const HardwareProfile& hardware);

/// Device memory of every rank with the allocator's margin; nothing if the profile does not know the device.
/// `ends`: channel_ends() of the schedule.
std::optional<DeviceMemoryPrediction> device_memory_of(const RunConfig& config, const std::vector<int>& ends,
                                                       const HardwareProfile& hardware,
                                                       const MemoryPrediction& memory,
                                                       const Software& software);

/// The verdict. `device`: as device_memory_of() says.
Fit fit_of(const RunConfig& config, const HardwareProfile& hardware, const MemoryPrediction& memory,
           const std::optional<DeviceMemoryPrediction>& device);
/// Both in one.
Fit fit_of(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
           const MemoryPrediction& memory);

/// Limit for the tensors of a world rank by the same rule; 0: no bound.
Bytes tensor_budget(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
                    int rank);

}  // namespace plumbline
