// Runs calibration cells under Google Benchmark, alone or on every rank at once.
#pragma once

#include <functional>
#include <vector>

#include "bench/calibrate/cells.hpp"

namespace plumbline::calibration {

/// Called with the share of the work that is done.
using OnProgress = std::function<void(double share)>;

/// Time of every cell in seconds, in the order given: the median of many calls, averaged over two sweeps over
/// all cells as far as time allows. Rank 0 of MPI_COMM_WORLD measures while every other rank repeats the same
/// cell. Collective; only rank 0 returns times. All cells have one storage type.
std::vector<double> measure(const std::vector<Cell>& cells, const OnProgress& on_progress);

}  // namespace plumbline::calibration
