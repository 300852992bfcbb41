// Slow machines that a job of many is likely to meet.
#pragma once

#include <cmath>

#include "core/base/units.hpp"

namespace plumbline {

/// Stated distribution: 0.5 % of machines of 8 GPUs take 10 % longer, whatever they run
/// (arXiv:2402.15627). A job waits for its slowest machine.
struct SlowMachines {
  static constexpr double kShare = 0.005;
  static constexpr double kFactor = 1.1;
  static constexpr int kGpus = 8;  // of a machine

  double probability = 0;  // that a job has one
  Seconds step;            // at most, with one
  Seconds expected;        // mean over jobs
};

/// For a step of `step` seconds on `world` GPUs.
inline SlowMachines slow_machines(Seconds step, int world) {
  const double machines = std::ceil(static_cast<double>(world) / SlowMachines::kGpus);
  const double probability = 1 - std::pow(1 - SlowMachines::kShare, machines);
  return {probability, step * SlowMachines::kFactor, step * (1 + probability * (SlowMachines::kFactor - 1))};
}

}  // namespace plumbline
