// Figures of operators that calibration had no time for.
#pragma once

#include <vector>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Replaces every NaN of `seconds` (by cell) by a time in proportion to the size. It comes from the nearest
/// measured cell of the same table and operator, else of the same table. Nearest in the logarithms of the
/// sizes; working sets count as a factor of 4 in size. Returns the number of replacements. Throws Error when
/// nothing of a table was measured.
std::size_t fill_unseen(const std::vector<Cell>& cells, std::vector<double>& seconds);

}  // namespace plumbline::calibration
