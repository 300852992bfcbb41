// Compute time of every rank of a run, relative to the others of its stage.
#pragma once

#include <limits>

#include "core/base/units.hpp"

namespace plumbline {

struct ComputingReport {
  int rank = 0;     // world rank
  Seconds seconds;  // of a step, waiting for others left out; the mean of the timed steps
  /// Slowdown relative to the median rank of its stage, and the standard error of that; NaN if fewer than
  /// three ranks have the stage.
  double factor = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace plumbline
