// From the times of cells to the tables of a hardware profile.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// One table per working set. Holes are filled, with a spread of 0: a GEMM that was left out because it takes too long gets the rate of the largest
/// measured product with fewer tokens, else narrower, else shallower; one that does not fit a
/// working set, the time of the next; one of few bytes in the largest, that of the one before. Attention that drops probabilities, where it was left out, takes
/// as many times what it takes without as where it was measured. `cells`
/// and `seconds` go together, and `spread` where there is one.
std::vector<OperatorTimes> assemble(const std::vector<Cell>& cells, const std::vector<double>& seconds,
                                    const std::vector<double>& spread = {});

/// The best rate of any GEMM of this type; 0 without one.
FlopsPerSecond best_gemm_rate(const std::vector<OperatorTimes>& tables, DType type);

}  // namespace plumbline::calibration
