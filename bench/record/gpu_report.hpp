// The key gpu of a measurement: libraries and kernels of its calls on a GPU, and the GPU's state meanwhile.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plumbline {

/// Library, kernel or algorithm that computed a kind of call.
struct ComputedBy {
  std::string call;  // "attention_backward bf16, batch 8, …", "messages"
  std::string by;    // "cuDNN 9.19.0", "own kernels", "P2P/CUMEM"
  std::string why;   // reason why the first choice did not; empty: it did
  friend bool operator==(const ComputedBy&, const ComputedBy&) = default;
};

/// A GPU during the timed steps, as its driver was asked several times a second.
struct GpuState {
  int samples = 0;
  double least_sm_mhz = 0;
  double most_sm_mhz = 0;
  double most_memory_mhz = 0;
  double mean_watt = 0;
  double most_watt = 0;
  double most_celsius = 0;
  std::vector<std::string> throttled;  // NVML's reasons for lower clocks that were seen, idleness apart
  friend bool operator==(const GpuState&, const GpuState&) = default;
};

struct GpuReport {
  std::vector<ComputedBy> computed_by;  // on world rank 0
  std::optional<GpuState> state;        // of its GPU; nothing: the driver could not be asked
  friend bool operator==(const GpuReport&, const GpuReport&) = default;
};

}  // namespace plumbline
