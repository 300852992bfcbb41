// Intervals of figures that follow from several uncertain ones. The ends of a product or a sum are not the
// products or sums of ends: figures are drawn whole.
#pragma once

#include <functional>

namespace plumbline {

/// Central 80 % of a figure.
struct Interval {
  double low = 0;
  double high = 0;
};

/// Numbers from 0 to 1, even and independent over the draws of one interval: quantiles of what is uncertain.
struct Draw {
  double step = 0;      // error of the predicted step
  double slow = 0;      // slow machines
  double failures = 0;  // failures of the run
};

inline constexpr int kDraws = 4096;

/// Interval of `figure` over draws that are alike for every figure, so that it can be repeated.
Interval drawn_interval(const std::function<double(const Draw&)>& figure);

}  // namespace plumbline
