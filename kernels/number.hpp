// Numbers that operators compute, and sums of them, which are read after their submission.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace plumbline {

/// A number that an operator computes. On a device it comes later: value() is right once the operators'
/// synchronize() has been called after it. So a step waits once, for any count of numbers.
class Number {
 public:
  Number() = default;
  Number(double value) : value_(value) {}  // NOLINT: an existing value is a number as well
  /// A number in host memory that a device writes.
  explicit Number(std::shared_ptr<const double> later) : later_(std::move(later)) {}
  double value() const { return later_ ? *later_ : value_; }

 private:
  double value_ = 0;
  std::shared_ptr<const double> later_;
};

/// Σ factor·number, added up in the order in which they came: the same bits whenever they come.
class NumberSum {
 public:
  NumberSum() = default;
  NumberSum(Number number) { add(std::move(number)); }  // NOLINT: a sum of one
  void add(Number number, double factor = 1) { terms_.emplace_back(factor, std::move(number)); }
  double value() const {
    double sum = 0;
    for (const auto& [factor, number] : terms_) sum += factor * number.value();
    return sum;
  }

 private:
  std::vector<std::pair<double, Number>> terms_;
};

/// The sum of sums, likewise.
inline double total(const std::vector<NumberSum>& sums) {
  double sum = 0;
  for (const NumberSum& one : sums) sum += one.value();
  return sum;
}

}  // namespace plumbline
