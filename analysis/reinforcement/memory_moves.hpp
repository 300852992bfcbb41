// Times of tensors that move between a rank's device and host, or are filled again.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/operator_time.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// All ranks move at the same time, and more than their caches hold. Both arguments must outlive it.
class MemoryMoves {
 public:
  MemoryMoves(const RunConfig& config, const HardwareProfile& hardware)
      : config_(config), hardware_(hardware) {}

  /// Between device and host, either way.
  Seconds to_host(Bytes bytes) const;
  /// On the device.
  Seconds copy(Bytes bytes) const;
  Seconds clear(Bytes bytes) const;
  /// First use of memory that was freed in between: a processor's kernel clears the pages, taken for a fill
  /// (huge pages of a Xeon took 1.3 times as long); a GPU keeps its own.
  Seconds fresh(Bytes bytes) const;

 private:
  Load load(Bytes touched) const;
  const RunConfig& config_;
  const HardwareProfile& hardware_;
};

}  // namespace plumbline
