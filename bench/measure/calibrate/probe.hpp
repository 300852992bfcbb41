// The speed of the machine at this moment, under the load of the ranks that ask.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"
#include "bench/measure/calibrate/speed_of_moment.hpp"
#include "core/run/communicator.hpp"
#include "kernels/operators.hpp"

namespace plumbline::calibration {

/// Enough for the operands of probe_cells().
inline constexpr PoolSizes kProbePools = {kMiB * 64, kMiB * 24, kMiB * 24, kMiB * 16};

/// Cells of all_cells() that a probe in this storage type measures, a subset of calibration's.
std::vector<Cell> probe_cells(DType storage);

/// Calibrated time of the cell's operator with operands in caches, as calibrated_seconds.
double calibrated_in_caches(const HardwareProfile& profile, const Cell& cell, double busy);

/// Calibrated time of a cell while `busy` of the other processors work; negative when the profile has no
/// times of it.
double calibrated_seconds(const HardwareProfile& profile, const Cell& cell, double busy);

struct OperatorRatios {
  ByClass longer = every_class(1);
  ByClass error;  // standard error of each
};
/// Slowdown factors of operators relative to the calibration, by the seconds of probe_cells(): interquartile
/// means over products and over other operators in caches. For operators from memory: the median of their
/// further slowdown.
OperatorRatios operator_ratios(const HardwareProfile& profile, const std::vector<Cell>& cells,
                               const std::vector<double>& seconds, double busy);

/// Slowdown factor of a message relative to the calibration, beyond the spread of its samples (`spread`, a
/// share). Of two samples the lower counts, as in calibration. Within the spread nothing is known, and it is
/// 1.
double message_ratio(const std::array<double, 2>& looks, double calibrated, double spread);

class Probe {
 public:
  /// `control` reaches all ranks, which probe together. All must outlive the probe.
  Probe(const HardwareProfile& profile, DType storage, Communicator& control);

  /// A profile of operators that were measured: there is something to compare with.
  static bool possible(const HardwareProfile& profile, DType storage);

  /// The mean of all ranks, 1 if there is nothing to compare. A probe takes usual times (CellTimer):
  /// calibration's lower quartiles are those of a quiet machine, a step runs at the current speed. Takes
  /// about `seconds`, and a moment for the messages. Collective.
  ProbeLook look(double seconds) const;

 private:
  const HardwareProfile& profile_;
  DType storage_;
  Communicator& control_;
};

}  // namespace plumbline::calibration
