// Memory of a GPU in use, by all processes together.
#pragma once

#include <optional>
#include <string>

#include "bench/measure/machine/nvml.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// Asks NVML where the driver's library is there, since it answers before this process has a CUDA context.
/// Otherwise asks cudaMemGetInfo, which makes a context to answer, so that the context's own size stays
/// unknown. Both count the memory that the driver has handed out, to the byte of its pages.
class DeviceMeter {
 public:
  /// Creates no context.
  explicit DeviceMeter(int device);

  /// Without touching CUDA; nothing if only CUDA can tell.
  std::optional<Bytes> used_before_context() const;
  /// To be called once this process has a context. Stops using NVML if it reports another device than CUDA:
  /// it reports the whole card when CUDA sees a slice of it (MIG).
  void context_exists();
  /// Throws Error when nobody can tell.
  Bytes used() const;
  /// Memory of the device, as reported by CUDA.
  Bytes total() const;
  /// "NVML", "cudaMemGetInfo".
  std::string source() const;
  const Nvml& nvml() const { return nvml_; }

 private:
  int device_;
  Nvml nvml_;
  bool asks_nvml_ = true;
};

}  // namespace plumbline
