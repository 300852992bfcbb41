// How much of a GPU's memory is in use, by all processes together.
#pragma once

#include <optional>
#include <string>

#include "bench/machine/nvml.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// Asks NVML where the driver's library is there, for it answers before this process has a CUDA context;
/// cudaMemGetInfo otherwise, which makes a context to answer, so that the context's own size stays unknown.
/// Both count what the driver has handed out, to the byte of its pages.
class DeviceMeter {
 public:
  /// Creates no context.
  explicit DeviceMeter(int device);

  /// Without touching CUDA; nothing where only CUDA can tell.
  std::optional<Bytes> used_before_context() const;
  /// To be called once this process has a context: leaves NVML alone where it reports another device than
  /// CUDA does, as it does for the whole card when CUDA sees a slice of it (MIG).
  void context_exists();
  /// Throws Error when nobody can tell.
  Bytes used() const;
  /// Memory of the device, as CUDA says.
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
