#include "bench/show/history/noise_prior.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline {
namespace {

constexpr double kFreedoms[] = {1, 2, 4, 8, 16, 32, 64, 1024};  // even in logarithms, and almost equal noise
constexpr int kVariances = 40;
constexpr double kBeyond = 8;         // logarithm of the factor from the variances seen to the possible ones
constexpr double kNegligible = 1e-9;  // of the largest likelihood

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

/// Logarithm of the density of a sum of squares, but for a factor that the prior does not change.
double log_density(const Squares& squares, double freedom, double variance) {
  const double half = (squares.freedom + freedom) / 2;
  return std::lgamma(half) - std::lgamma(freedom / 2) + freedom / 2 * std::log(freedom * variance) -
         half * std::log(freedom * variance + squares.sum);
}

double log_density(const std::vector<Squares>& all, double freedom, double variance) {
  double sum = 0;
  for (const Squares& squares : all) sum += log_density(squares, freedom, variance);
  return sum;
}

}  // namespace

double student_tails(double t, double freedom) {
  return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

NoisePrior::NoisePrior(std::vector<Squares> all) : all_(std::move(all)) {
  double low = INFINITY, high = -INFINITY;
  for (const Squares& squares : all_) {
    if (squares.freedom <= 0) continue;
    low = std::min(low, std::log(squares.sum / squares.freedom) - kBeyond);
    high = std::max(high, std::log(squares.sum / squares.freedom) + kBeyond);
  }
  if (high < low) return;
  // First all variances that are possible, then those that are likely.
  for (const bool likely : {false, true}) {
    points_.clear();
    double most = -INFINITY;
    for (const double freedom : kFreedoms) {
      for (int i = 0; i < kVariances; ++i) {
        const double variance = std::exp(low + (high - low) * i / (kVariances - 1));
        points_.push_back({freedom, variance, log_density(all_, freedom, variance)});
        most = std::max(most, points_.back().log_likelihood);
      }
    }
    if (likely) break;
    const double step = (high - low) / (kVariances - 1);
    std::swap(low, high);
    for (const Point& point : points_) {
      if (point.log_likelihood < most + std::log(kNegligible)) continue;
      low = std::min(low, std::log(point.variance) - step);
      high = std::max(high, std::log(point.variance) + step);
    }
  }
}

double NoisePrior::tails(std::size_t series, double contrast, const Squares& own, double enough) const {
  std::vector<double> weights;
  double most = -INFINITY;
  for (const Point& point : points_) {
    weights.push_back(point.log_likelihood + log_density(own, point.freedom, point.variance) -
                      log_density(all_[series], point.freedom, point.variance));
    most = std::max(most, weights.back());
  }
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - most);
  if (weights.empty()) return 1;
  double sum = 0;
  for (std::size_t i = 0; i < points_.size() && sum <= enough * total; ++i) {
    if (weights[i] < kNegligible) continue;
    const double freedom = points_[i].freedom + own.freedom;
    const double variance = (points_[i].freedom * points_[i].variance + own.sum) / freedom;
    sum += weights[i] * student_tails(contrast / std::sqrt(variance), freedom);
  }
  return sum / total;
}

}  // namespace plumbline
