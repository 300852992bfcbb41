// From readings of a GPU's memory to the memory of each rank's process. No CUDA in here:
// bench/cuda/cuda_session.cpp takes the readings.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/record/device_memory_report.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// A device at one moment.
struct DeviceReading {
  Bytes used;          // of the device, by all processes
  Bytes tensor_pool;   // of it, reserved by this process for tensors
  Bytes library_pool;  // of it, reserved by this process's default pool
  Bytes pools() const { return tensor_pool + library_pool; }
};

/// Readings of one rank, in this order. Plain memory, so that it can travel. Ranks that share a device make
/// their contexts and operators in turns, so these differences are a rank's own. Communicators are made by
/// all of them at once.
struct DeviceReadings {
  Bytes before{-1};         // `used` before this process had a context; -1: cannot be had
  DeviceReading context;    // with a context
  DeviceReading operators;  // with the library's handle
  DeviceReading alone;      // all ranks are here
  DeviceReading connected;  // all ranks' communicators have been made and used
  DeviceReading last;       // after the last step; of all ranks
  Bytes most_tensor_pool;   // the largest it ever was
  Bytes most_library_pool;  // the largest it was in the last step
  Bytes device;             // memory of the device
  std::int32_t host = 0;    // of the ranks with the same host and device, all share one
  std::int32_t number = 0;  // the device's among those of the host
};

/// One row per rank, in the order of `ranks`. Readings of a device as a whole (communicators; later memory
/// outside of all pools) are split evenly over its ranks. `allocated` is each rank's peak of tensors.
std::vector<DeviceMemoryRow> account_device(const std::vector<DeviceReadings>& ranks,
                                            const std::vector<Bytes>& allocated);

}  // namespace plumbline
