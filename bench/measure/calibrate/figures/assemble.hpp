// From the times of cells to the tables of a hardware profile.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// One table per working set. Holes are filled, with a spread of 0:
/// - a GEMM left out because it takes too long: the rate of the largest measured product with fewer tokens,
///   else narrower, else shallower;
/// - one that does not fit a working set: the time of the next; one of few bytes in the largest: that of the
///   one before;
/// - attention with dropout: the time without dropout, times the factor where both were measured.
/// `cells` and `seconds` go together, and `spread` if there is one.
std::vector<OperatorTimes> assemble(const std::vector<Cell>& cells, const std::vector<double>& seconds,
                                    const std::vector<double>& spread = {});

/// The best rate of any GEMM of this type; 0 without one.
FlopsPerSecond best_gemm_rate(const std::vector<OperatorTimes>& tables, DType type);

}  // namespace plumbline::calibration
