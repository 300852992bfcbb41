// The time of a matrix: predicted for its cells, and measured for the finished ones.
#pragma once

#include "core/base/units.hpp"

namespace plumbline {

/// Limit for repeats of disturbed cells: this share of the time that all cells take once, and some seconds of
/// a short matrix.
constexpr double kMostForRepeats = 1.0 / 3;
constexpr Seconds kSomeRepeats{20};

class MatrixTime {
 public:
  /// `predicted`: of all cells that are to be measured, each once.
  explicit MatrixTime(Seconds predicted) : left_(predicted) {}

  /// A cell was measured for the first time.
  void measured(Seconds predicted, Seconds took);
  /// True if there is time to repeat a cell that took `took`. Based on the time of the cells so far and a
  /// prediction for those to come, which is shorter on a machine quicker than predicted.
  bool has_time_to_repeat(Seconds took) const;
  void repeated(Seconds took) { repeats_ += took; }

  /// Slowdown factor of cells here relative to their prediction; 1 before the first.
  double pace() const { return predicted_.value > 0 ? took_ / predicted_ : 1; }

 private:
  Seconds left_;       // predicted, of cells to come
  Seconds predicted_;  // of cells that were measured
  Seconds took_;       // by these, each once
  Seconds repeats_;
};

}  // namespace plumbline
