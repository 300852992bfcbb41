// From the times of cells to the tables of a hardware profile.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/calibrate/cells.hpp"

namespace plumbline::calibration {

/// One table per working set. A GEMM that was left out because it takes too long gets the rate of the largest
/// measured product with fewer tokens, else narrower, else shallower; one that does not fit the private
/// cache, the time of the next working set. Attention that drops probabilities, where it was left out, takes
/// as many times what it takes without as where it was measured. `cells` and `seconds` go together.
std::vector<OperatorTimes> assemble(const std::vector<Cell>& cells, const std::vector<double>& seconds);

/// Adds the tables of `more`, which has the same working sets (another storage type's).
void merge(std::vector<OperatorTimes>& tables, const std::vector<OperatorTimes>& more);

/// The best rate of any GEMM of this type; 0 without one.
FlopsPerSecond best_gemm_rate(const std::vector<OperatorTimes>& tables, DType type);

}  // namespace plumbline::calibration
