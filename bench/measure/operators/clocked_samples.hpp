// Samples of a time, without those that a low clock has made long.
#pragma once

#include <functional>
#include <vector>

#include "bench/record/operator_row.hpp"

namespace plumbline {

/// Clock of the measured processor in any unit; 0: unknown.
using ClockReader = std::function<double()>;

/// nvbench's habit: a sample counts if the clock behind it is at least 75 % of the highest that was seen.
class ClockedSamples {
 public:
  /// `highest`: of earlier samples, raised by these. It must outlive the object.
  ClockedSamples(const ClockReader& clock, double& highest) : clock_(clock), highest_(highest) {}

  void add(double seconds);
  /// True if the interval of the median is narrow, of five samples at least, or if the time is up and there
  /// are three.
  bool enough(bool time_is_up) const;
  /// Median over all samples if none has a sufficient clock. `calls`: per sample. Throws Error without any.
  BenchedTime time(std::int64_t calls) const;

 private:
  std::vector<double> counted() const;

  const ClockReader& clock_;
  double& highest_;
  std::vector<double> seconds_, clocks_;
};

}  // namespace plumbline
