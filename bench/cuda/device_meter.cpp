#include "bench/cuda/device_meter.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "core/backends/nccl/check.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// nvmlMemory_t; the toolkit's NVML header is optional, the library comes with the driver.
struct NvmlMemory {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t used = 0;
};

/// A card and CUDA's view of it differ by what the driver keeps for itself, 1 %; a slice by far more.
constexpr double kSameDevice = 0.05;

template <class Function>
Function function(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

DeviceMeter::DeviceMeter(int device) : device_(device) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return;
  const auto init = function<int (*)()>(library_, "nvmlInit_v2");
  const auto find = function<int (*)(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  memory_info_ = function<int (*)(void*, void*)>(library_, "nvmlDeviceGetMemoryInfo");
  const auto shutdown = function<int (*)()>(library_, "nvmlShutdown");
  if (init == nullptr || find == nullptr || memory_info_ == nullptr || init() != 0) return;
  shutdown_ = shutdown;
  if (find(bus.data(), &handle_) != 0) handle_ = nullptr;
}

DeviceMeter::~DeviceMeter() {
  if (shutdown_ != nullptr) shutdown_();
  if (library_ != nullptr) ::dlclose(library_);
}

std::optional<Bytes> DeviceMeter::used_before_context() const {
  NvmlMemory memory;
  if (handle_ == nullptr || memory_info_(handle_, &memory) != 0) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(memory.used)};
}

void DeviceMeter::context_exists() {
  NvmlMemory memory;
  if (handle_ == nullptr || memory_info_(handle_, &memory) != 0 ||
      std::abs(static_cast<double>(memory.total) / static_cast<double>(total().value) - 1) > kSameDevice) {
    handle_ = nullptr;
  }
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
  return handle_ != nullptr ? "NVML" : "cudaMemGetInfo";
}

}  // namespace plumbline
