#include "bench/show/history/change_points.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kDifferenceFreedom = 0.6;  // of a difference, as neighbours share a value (simulated)
constexpr double kNoisier = 6;  // a series whose own variance is so much above the common one has its own
constexpr double kPriorFreedom = 8;   // weight of the common noise, in degrees of freedom
constexpr double kLeastNoise = 1e-4;  // clocks and schedulers are not better
constexpr double kMadToDeviation = 1.4826;

/// Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method.
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int i = 1; i <= 300; ++i) {
    const double m = i;
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::abs(c) < kTiny) c = kTiny;
      fraction *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-14) break;
  }
  return fraction;
}

/// Regularized incomplete beta function.
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/// Logarithms of the known values, and their places.
struct LogSeries {
  std::vector<double> values;
  std::vector<std::size_t> places;
};

LogSeries known_values(const std::vector<double>& values) {
  LogSeries known;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || values[i] <= 0) continue;
    known.values.push_back(std::log(values[i]));
    known.places.push_back(i);
  }
  return known;
}

/// Absolute differences of neighbours.
void add_differences(const LogSeries& series, std::vector<double>& differences) {
  for (std::size_t i = 1; i < series.values.size(); ++i)
    differences.push_back(std::abs(series.values[i] - series.values[i - 1]));
}

/// Variance of the noise of all series: the median of neighbours' differences, which steps hardly move.
double common_variance(const std::vector<LogSeries>& all) {
  std::vector<double> differences;
  for (const LogSeries& series : all) add_differences(series, differences);
  if (differences.empty()) return 0;
  const double deviation = kMadToDeviation * median(differences) / std::sqrt(2.0);
  return deviation * deviation;
}

/// Square of the z that a share of normal |z| is below: the inverse error function (Winitzki).
double squared_deviate(double share) {
  constexpr double kA = 0.147;
  const double log = std::log1p(-share * share);
  const double half = 2 / (3.141592653589793 * kA) + log / 2;
  return 2 * (std::sqrt(half * half - log / kA) - half);
}

struct Noise {
  double variance = 0;
  double freedom = 0;
};

/// Noise of one series by its neighbours' differences without the two largest, which may be steps.
Noise own_noise(const LogSeries& series) {
  constexpr std::size_t kSteps = 2;
  std::vector<double> differences;
  add_differences(series, differences);
  if (differences.size() <= kSteps + 1) return {};
  std::sort(differences.begin(), differences.end());
  const std::size_t kept = differences.size() - kSteps;
  double squares = 0;
  double expected = 0;  // of unit noise, by normal order statistics
  for (std::size_t i = 0; i < kept; ++i) {
    squares += differences[i] * differences[i];
    expected +=
        squared_deviate((static_cast<double>(i) + 0.625) / (static_cast<double>(differences.size()) + 0.25));
  }
  return {squares / expected / 2, kDifferenceFreedom * static_cast<double>(kept)};
}

double mean_of(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += values[i];
  return sum / static_cast<double>(end - begin);
}

/// A search of one history.
class Segments {
 public:
  Segments(const std::vector<LogSeries>& all, const ChangeRule& rule)
      : rule_(rule), common_(std::max(common_variance(all), kLeastNoise * kLeastNoise)) {
    for (const LogSeries& series : all)
      places_ += series.values.empty() ? 0 : static_cast<double>(series.values.size() - 1);
  }

  /// Steps within [begin, end) of a series, in order.
  void find(const LogSeries& series, const Noise& noise, std::size_t number, std::size_t begin,
            std::size_t end, std::vector<ChangePoint>& found) const {
    ChangePoint best;
    std::size_t split = begin;
    for (std::size_t at = begin + 1; at < end; ++at) {
      const ChangePoint point = step_at(series, noise, begin, at, end);
      if (split == begin || point.probability < best.probability) {
        best = point;
        split = at;
      }
    }
    if (split == begin || best.probability > rule_.significance ||
        std::abs(best.relative()) < rule_.tolerance)
      return;
    find(series, noise, number, begin, split, found);
    best.series = number;
    best.at = series.places[split];
    found.push_back(best);
    find(series, noise, number, split, end, found);
  }

 public:
  /// Noise of a series, by its own and that of all.
  Noise noise_of(const LogSeries& series) const {
    const Noise own = own_noise(series);
    const double common = std::max(common_, kLeastNoise * kLeastNoise);
    if (own.variance > kNoisier * common) return own;
    const double freedom = kPriorFreedom + own.freedom;
    return {(kPriorFreedom * common + own.freedom * own.variance) / freedom, freedom};
  }

 private:
  ChangePoint step_at(const LogSeries& series, const Noise& noise, std::size_t begin, std::size_t at,
                      std::size_t end) const {
    const double before = mean_of(series.values, begin, at);
    const double after = mean_of(series.values, at, end);
    const double parts = 1 / static_cast<double>(at - begin) + 1 / static_cast<double>(end - at);
    const double t = (after - before) / std::sqrt(noise.variance * parts);
    ChangePoint point;
    point.before = std::exp(before);
    point.after = std::exp(after);
    point.probability = std::min(1.0, places_ * student_tails(t, noise.freedom));
    return point;
  }

  const ChangeRule& rule_;
  double common_;
  double places_ = 0;  // that a step may be at, in all series
};

/// Means of the levels between the steps of one series.
void set_levels(const LogSeries& series, std::vector<ChangePoint>::iterator begin,
                std::vector<ChangePoint>::iterator end) {
  const auto index_of = [&](std::size_t place) {
    return static_cast<std::size_t>(std::find(series.places.begin(), series.places.end(), place) -
                                    series.places.begin());
  };
  std::size_t from = 0;
  for (auto point = begin; point != end; ++point) {
    const std::size_t at = index_of(point->at);
    const std::size_t to = point + 1 == end ? series.values.size() : index_of((point + 1)->at);
    point->before = std::exp(mean_of(series.values, from, at));
    point->after = std::exp(mean_of(series.values, at, to));
    from = at;
  }
}

}  // namespace

double student_tails(double t, double freedom) {
  return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

std::vector<ChangePoint> change_points(const std::vector<std::vector<double>>& series,
                                       const ChangeRule& rule) {
  std::vector<LogSeries> all;
  all.reserve(series.size());
  for (const std::vector<double>& values : series) all.push_back(known_values(values));
  const Segments segments(all, rule);
  std::vector<ChangePoint> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t first = found.size();
    segments.find(all[i], segments.noise_of(all[i]), i, 0, all[i].values.size(), found);
    set_levels(all[i], found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
  }
  return found;
}

}  // namespace plumbline
