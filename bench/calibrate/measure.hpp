// Looks at calibration cells, alone and with every processor at the same cell.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/calibrate/figures/looks.hpp"

namespace plumbline::calibration {

/// Called with the share of the work that is done.
using OnProgress = std::function<void(double share)>;

struct LookPlan {
  /// What is known: empty for a round over all cells, else only what is not settled is looked at, again and again.
  LooksOfCells known;
  double seconds = 30;      // of wall time, after which no other cell is looked at
  std::uint64_t round = 0;  // gives the order of the cells, which differs from round to round
};

/// New looks at the cells of all_cells(). Rank 0 of MPI_COMM_WORLD measures; every other rank sleeps while it
/// measures alone and repeats the same cell while it measures with all busy, one straight after the other, so that a
/// slow moment hits both. Collective; only rank 0 returns looks.
LooksOfCells measure(const std::vector<Cell>& cells, const LookPlan& plan, const OnProgress& on_progress);

}  // namespace plumbline::calibration
