// The time of a matrix: what was predicted for its cells, and what those that are done took.
#pragma once

#include "core/base/units.hpp"

namespace plumbline {

/// Repeats of disturbed cells take at most this share of the time that all cells take once, and some seconds of a short
/// matrix.
constexpr double kMostForRepeats = 1.0 / 3;
constexpr Seconds kSomeRepeats{20};

class MatrixTime {
 public:
  /// `predicted`: of all cells that are to be measured, each once.
  explicit MatrixTime(Seconds predicted) : left_(predicted) {}

  /// A cell was measured for the first time.
  void measured(Seconds predicted, Seconds took);
  /// Whether there is time for a cell that took so long once more, by what the cells so far took and a prediction for those
  /// to come, which a machine quicker than predicted makes shorter.
  bool has_time_to_repeat(Seconds took) const;
  void repeated(Seconds took) { repeats_ += took; }

  /// How many times longer than predicted cells take here; 1 before the first.
  double pace() const { return predicted_.value > 0 ? took_ / predicted_ : 1; }

 private:
  Seconds left_;       // predicted, of cells to come
  Seconds predicted_;  // of cells that were measured
  Seconds took_;       // by these, each once
  Seconds repeats_;
};

}  // namespace plumbline
