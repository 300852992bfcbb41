// Looks at one cell: its operands laid out and warm, its calls timed for a moment.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

class CellTimer {
 public:
  CellTimer(Operators& operators, Pools& pools) : operators_(operators), pools_(pools) {}

  /// Lays out the cell's operands and calls it once, so that primitives are made and pages are there. Calls begin
  /// with number `first`: beyond the caches every cell begins elsewhere, the beginning has just been used by the cell
  /// before.
  void begin(const Cell& cell, std::int64_t first);
  /// One more call, not timed.
  void call() { call_(next_++); }
  /// Seconds per call: the median of calls during about kLookSeconds, at least kFewest of them (one, where a
  /// call takes longer than all that). Long calls are timed in processor time, so that what else runs on the machine
  /// does not count.
  double look();
  /// Whether calls are long enough for it.
  bool on_processor_clock() const { return processor_clock_; }
  /// As look(), but the mean of calls that are timed in processor time: with the moments in which this processor does something
  /// else, or less, as a step has them.
  double usual();

 private:
  void sample();
  double run_batch();

  Operators& operators_;
  Pools& pools_;
  CellCall call_;
  std::int64_t next_ = 0;
  std::int64_t batch_ = 1;
  double parts_ = 1;
  double once_ = 0;  // seconds of the first call
  bool processor_clock_ = true;
  std::vector<double> samples_;
};

}  // namespace plumbline::calibration
