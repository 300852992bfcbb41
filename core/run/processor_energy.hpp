// Energy counters of a host's processors: RAPL, through Linux's powercap.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// Energy of all processor packages and their memory between begin() and end(), summed over such intervals.
/// Whatever runs on the host counts.
class ProcessorEnergy {
 public:
  /// Finds the counters. They are read by begin() and end() only.
  explicit ProcessorEnergy(const std::string& folder = "/sys/class/powercap");

  void begin();
  void end();

  /// Mean power in W over the intervals; NaN: unavailable.
  double watt() const;
  /// Reason, "/sys/class/powercap: no RAPL counter"; empty: available.
  const std::string& why_unavailable() const { return why_; }

 private:
  struct Counter {
    std::string file;
    double largest = 0;  // J; it goes on at 0
    double begun = 0;    // J
  };

  std::vector<Counter> counters_;
  std::string why_;
  Seconds begun_;
  Seconds measured_;
  double joules_ = 0;
};

}  // namespace plumbline
