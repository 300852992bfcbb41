// The speed of the machine at this moment, under the load of the ranks that ask.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/calibrate/cells/cells.hpp"
#include "bench/evaluate/speed_of_moment.hpp"
#include "core/run/communicator.hpp"
#include "kernels/operators.hpp"

namespace plumbline::calibration {

/// Enough for the operands of probe_cells().
inline constexpr PoolSizes kProbePools = {kMiB * 64, kMiB * 24, kMiB * 24, kMiB * 16};

/// The cells of all_cells() that a probe in this storage type looks at. A probe measures nothing that calibration does
/// not.
std::vector<Cell> probe_cells(DType storage);

/// What the cell's operator takes with operands in caches, as calibrated_seconds.
double calibrated_in_caches(const HardwareProfile& profile, const Cell& cell, double busy);

/// What the profile says that a cell takes while `busy` of the other processors work; negative when it has no times of it.
double calibrated_seconds(const HardwareProfile& profile, const Cell& cell, double busy);

struct OperatorRatios {
  ByClass longer = every_class(1);
  ByClass error;  // standard error of each
};
/// How many times longer than calibrated operators take, by the seconds that probe_cells() took: interquartile means over products and over
/// others in caches, and the median of what those that come from memory take longer than these say.
OperatorRatios operator_ratios(const HardwareProfile& profile, const std::vector<Cell>& cells,
                               const std::vector<double>& seconds, double busy);

/// How many times longer than calibrated a message takes now: the lower of two looks, as calibration keeps the lower of its own,
/// beyond what these were apart (`spread`, a share). Within that nothing is known, and it is 1.
double message_ratio(const std::array<double, 2>& looks, double calibrated, double spread);

class Probe {
 public:
  /// `control` reaches all ranks, which probe together. All must outlive the probe.
  Probe(const HardwareProfile& profile, DType storage, Communicator& control);

  /// A profile of operators that were measured: there is something to compare with.
  static bool possible(const HardwareProfile& profile, DType storage);

  /// The mean of all ranks, 1 where there is nothing to compare. A probe takes usual times (CellTimer): calibration's lower
  /// quartiles are what a quiet machine does, and a step takes what it does now. Takes about `seconds`, and a moment for the
  /// messages. Collective.
  ProbeLook look(double seconds) const;

 private:
  const HardwareProfile& profile_;
  DType storage_;
  Communicator& control_;
};

}  // namespace plumbline::calibration
