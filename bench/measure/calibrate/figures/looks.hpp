// Samples of every calibrated cell, and the figure derived from them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/speed.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Seconds per call as each look found them, in the order of the looks.
struct Looks {
  std::vector<double> alone;  // while the other processors were idle
  std::vector<double> busy;   // while all of them did the same
};
using LooksOfCells = std::vector<Looks>;  // by cell

/// One figure of a table.
struct LookFigure {
  /// A low quantile of the samples, their lower quartile: disturbances only lengthen them, and half may be
  /// disturbed.
  double seconds = 0;
  /// Spread of the samples without the slowest quarter, as a share of `seconds`. 0: one sample.
  double spread = 0;
};
/// Throws Error without looks.
LookFigure figure_of(const std::vector<double>& looks);

/// Looks further apart are worth another one.
constexpr double kSettledSpread = 0.1;
/// True if one of the cell's figures is unsettled, or has only one sample.
bool is_unsettled(const Looks& looks);
/// Figures whose looks are further apart than that.
std::int64_t count_unsettled(const LooksOfCells& looks);

/// Adds the looks of `more`, which has the same cells.
void append(LooksOfCells& looks, const LooksOfCells& more);

/// Drift of whole classes between the first samples of all cells, the second and so on: the highest median
/// against the lowest, as a share. Operators only.
ByClass movement_of(const std::vector<Cell>& cells, const LooksOfCells& looks);

std::string to_json(const LooksOfCells& looks);
/// Throws InputError when the text is no list of `cells` looks.
LooksOfCells parse_looks(std::string_view text, const std::string& origin, std::size_t cells);

}  // namespace plumbline::calibration
