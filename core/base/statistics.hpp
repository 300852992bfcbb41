// Medians and means. An even count has two middle values; the name says how they are used.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {

/// The value that `place` others are not above. Throws Error when there are not that many.
template <class T>
T value_at(std::vector<T> values, std::size_t place) {
  if (place >= values.size()) throw Error("a median of no values was asked for");
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// The middle value, the smaller one of two: always one of `values`. Throws Error when there are none.
template <class T>
T lower_median(std::vector<T> values) {
  const std::size_t place = values.empty() ? 0 : (values.size() - 1) / 2;
  return value_at(std::move(values), place);
}

/// The middle value, the larger one of two: always one of `values`. Throws Error when there are none.
template <class T>
T upper_median(std::vector<T> values) {
  const std::size_t place = values.size() / 2;
  return value_at(std::move(values), place);
}

/// The middle value, or the mean of the two. Throws Error when there are none.
inline double median(const std::vector<double>& values) {
  return values.size() % 2 == 1 ? upper_median(values) : (lower_median(values) + upper_median(values)) / 2;
}

/// Throws Error when there are none.
inline double mean(const std::vector<double>& values) {
  if (values.empty()) throw Error("a mean of no values was asked for");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Mean without the lowest and the highest quarter: as robust against outliers as a median, and steadier.
/// Throws Error when there are none.
inline double interquartile_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto left_out = static_cast<std::ptrdiff_t>(values.size() / 4);
  return mean({values.begin() + left_out, values.end() - left_out});
}

/// A median and its 95 % interval.
struct MedianInterval {
  double median, low, high;
  /// Half of its width, relative to the median.
  double spread() const { return median > 0 ? (high - low) / 2 / median : 0; }
};

/// The interval follows from the order of the values. Throws Error when there are none.
inline MedianInterval median_interval(std::vector<double> values) {
  const double middle = median(values);
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  // Ranks of the order statistics around the median: binomial, by its normal approximation.
  const double reach = 1.96 * std::sqrt(n);
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor((n - reach) / 2)));
  const auto high = static_cast<std::size_t>(std::min(n - 1, std::ceil((n + reach) / 2)));
  return {middle, values[low], values[high]};
}

/// Index of the lower median. Throws Error when there are no values.
template <class T>
std::size_t lower_median_index(const std::vector<T>& values) {
  if (values.empty()) throw Error("a median of no values was asked for");
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order[(order.size() - 1) / 2];
}

}  // namespace plumbline
