// Looks at calibration cells, alone and with every processor at the same cell.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/measure/calibrate/figures/looks.hpp"

namespace plumbline::calibration {

/// Called with the share of the work that is done.
using OnProgress = std::function<void(double share)>;

struct LookPlan {
  /// Samples so far: empty for a round over all cells; else only unsettled cells are sampled, repeatedly.
  LooksOfCells known;
  double seconds = 30;      // of wall time, after which no other cell is looked at
  std::uint64_t round = 0;  // gives the order of the cells, which differs from round to round
};

/// New samples of the cells of all_cells(). Rank 0 of MPI_COMM_WORLD measures. The other ranks sleep while it
/// measures alone, and repeat the same cell while it measures with all busy. The two follow straight on each
/// other, so that a slow moment hits both. Collective; only rank 0 returns samples.
LooksOfCells measure(const std::vector<Cell>& cells, const LookPlan& plan, const OnProgress& on_progress);

}  // namespace plumbline::calibration
