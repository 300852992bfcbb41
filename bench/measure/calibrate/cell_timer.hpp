// Looks at one cell: its operands laid out and warm, its calls timed for a moment.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

class CellTimer {
 public:
  CellTimer(Operators& operators, Pools& pools) : operators_(operators), pools_(pools) {}

  /// Lays out the cell's operands and calls it once, so that primitives are made and pages are there. Calls
  /// begin with number `first`: beyond the caches every cell begins at another place, because the cell before
  /// has just used the beginning.
  void begin(const Cell& cell, std::int64_t first);
  /// One more call, not timed.
  void call() { call_(next_++); }
  /// Seconds per call: the median of calls during about kLookSeconds, at least kFewest of them (one, where a
  /// call takes longer than that). Long calls are timed in processor time, so that other programs on the
  /// machine do not count.
  double look();
  /// True if calls are long enough for it.
  bool on_processor_clock() const { return processor_clock_; }
  /// As look(), but the mean of calls timed in processor time, including moments in which this processor does
  /// something else, or less, as in a step.
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
