// Which working sets are in which cache, from the times of cells.
#pragma once

#include <vector>

#include "analysis/hardware/measured_times.hpp"
#include "bench/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// At every working set of the level cells how far it is from a table's working set to the next one's, in the time that their
/// products take: the median of the products, not descending. Empty without such cells. `cells` and `seconds` go together.
CacheLevels levels_of(const std::vector<Cell>& cells, const std::vector<double>& seconds);

}  // namespace plumbline::calibration
