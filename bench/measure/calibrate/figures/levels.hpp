// Cache levels of working sets, from the times of cells.
#pragma once

#include <vector>

#include "analysis/hardware/measured_times.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Position of every working set of the level cells between two tables' working sets, by the time of their
/// products. Median of the products, not descending. Empty without such cells. `cells` and `seconds` go
/// together.
CacheLevels levels_of(const std::vector<Cell>& cells, const std::vector<double>& seconds);

}  // namespace plumbline::calibration
