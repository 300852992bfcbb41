#include "bench/cuda/device_meter.hpp"

#include <array>
#include <cmath>

#include "bench/cuda/cuda_device.hpp"
#include "core/backends/nccl/check.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// A card and CUDA's view of it differ by the driver's own memory, 1 %; a slice by far more.
constexpr double kSameDevice = 0.05;

}  // namespace

DeviceMeter::DeviceMeter(int device) : device_(device), nvml_(bus_of(device)) {}

std::optional<Bytes> DeviceMeter::used_before_context() const {
  if (!asks_nvml_) return std::nullopt;
  const std::optional<NvmlMemory> memory = nvml_.memory();
  return memory ? std::optional(memory->used) : std::nullopt;
}

void DeviceMeter::context_exists() {
  const std::optional<NvmlMemory> memory = nvml_.memory();
  asks_nvml_ =
      memory && std::abs(static_cast<double>(memory->total.value) / static_cast<double>(total().value) - 1) <=
                    kSameDevice;
}

Bytes DeviceMeter::used() const {
  if (const auto used = used_before_context()) return *used;
  const DeviceMemoryUse use = device_memory_use(device_);
  return use.total - use.free;
}

Bytes DeviceMeter::total() const {
  return device_memory_use(device_).total;
}

std::string DeviceMeter::source() const {
  return asks_nvml_ && nvml_.there() ? "NVML" : "cudaMemGetInfo";
}

}  // namespace plumbline
