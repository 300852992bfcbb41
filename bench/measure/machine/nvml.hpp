// NVIDIA's management library, loaded where the driver brings it: state of a GPU without a CUDA context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/record/node_report.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// One look at a GPU.
struct NvmlLook {
  double sm_mhz = 0;
  double memory_mhz = 0;
  double watt = 0;
  double joule = 0;  // used since the driver was loaded
  double celsius = 0;
  std::uint64_t reasons = 0;  // for lower clocks: nvmlClocksEventReason… bits
};

struct NvmlMemory {
  Bytes total;
  Bytes used;  // by all processes
};

/// NVML's reasons that keep a busy GPU below its clocks, in words ("sw_power_cap"), without idleness and
/// user-set clocks.
std::vector<std::string> throttle_reasons(std::uint64_t bits);

/// One device. Throws nothing: unavailable values are absent.
class Nvml {
 public:
  /// `bus`: as from cudaDeviceGetPCIBusId. Creates no CUDA context.
  explicit Nvml(const std::string& bus, const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// True if the library and the device were found.
  bool there() const { return device_ != nullptr; }
  std::optional<NvmlMemory> memory() const;
  /// Nothing if neither clocks nor power are available; a single missing value is 0.
  std::optional<NvmlLook> look() const;
  /// Fills PCIe, NVLink and ECC errors since the driver was loaded; unavailable ones stay.
  void add_links_and_errors(NodeHealth& health) const;

 private:
  template <class Function>
  Function function(const char* name) const;

  void* library_ = nullptr;
  void* device_ = nullptr;
  bool begun_ = false;
};

}  // namespace plumbline
