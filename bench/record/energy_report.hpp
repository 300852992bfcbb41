// Power and energy of a measured run.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace plumbline {

/// Means over the timed steps; NaN: unavailable.
struct EnergyReport {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double processors_watt = kUnknown;  // packages and memory of all hosts, other programs included
  double gpus_watt = kUnknown;        // all GPUs of the run
  double step_joule = kUnknown;       // of what is known
  double token_joule = kUnknown;
  std::vector<std::string> unavailable{};  // "processors: REASON", "gpus: REASON"
  friend bool operator==(const EnergyReport&, const EnergyReport&) = default;
};

/// Power that a rank has read. Plain memory, so that it can travel.
struct RankPower {
  std::uint64_t host = 0;                           // a number for the host
  std::uint64_t device = 0;                         // a number for the GPU, over all hosts; 0: none
  double processors_watt = EnergyReport::kUnknown;  // of the host
  double gpu_watt = EnergyReport::kUnknown;
};

/// `ranks`: of all. A host or GPU counts once; its ranks' mean is taken. One that is unknown makes the sum
/// unknown. `step_s` and `tokens`: of a step.
EnergyReport energy_of(const std::vector<RankPower>& ranks, double step_s, double tokens);

}  // namespace plumbline
