#include "analysis/reliability/draws.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace plumbline {
namespace {

constexpr double kOutsideEachEnd = 0.1;

/// Point `number` of an even sequence: multiples of a power of 1/g, g^4 = g + 1, without their whole part
/// (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018).
double even(int number, double multiple) {
  const double at = 0.5 + number * multiple;
  return at - std::floor(at);
}

}  // namespace

Interval drawn_interval(const std::function<double(const Draw&)>& figure) {
  constexpr double kRoot = 1.2207440846057596;
  std::vector<double> values;
  values.reserve(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    values.push_back(
        figure({even(i, 1 / kRoot), even(i, 1 / (kRoot * kRoot)), even(i, 1 / (kRoot * kRoot * kRoot))}));
  }
  std::sort(values.begin(), values.end());
  const auto outside = static_cast<std::size_t>(kOutsideEachEnd * kDraws);
  return {values[outside], values[kDraws - 1 - outside]};
}

}  // namespace plumbline
