// When a time has been measured often enough. No CUDA in here.
#pragma once

#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// nvbench's habit: until the mean is steady and some time has passed, and not for ever.
struct SteadyLimits {
  double noise = 0.005;  // of the samples: standard deviation ÷ mean
  int fewest = 10;
  Seconds least{0.01};   // all samples together
  Seconds longest{0.5};  // likewise
};

/// Limits for dozens of operators in a minute.
constexpr SteadyLimits kOfMany{.noise = 0.01, .longest = {0.1}};

class SteadySamples {
 public:
  explicit SteadySamples(const SteadyLimits& limits = {}) : limits_(limits) {}
  void add(Seconds sample);
  bool enough() const;
  /// Standard deviation ÷ mean; 0 of fewer than two.
  double noise() const;
  /// The lower one of an even number; 0 without samples.
  Seconds median() const;
  int count() const { return static_cast<int>(samples_.size()); }

 private:
  SteadyLimits limits_;
  std::vector<double> samples_;
  double sum_ = 0;
};

}  // namespace plumbline
