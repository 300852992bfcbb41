// The slowest of many GPUs against numerical integration.
#include "analysis/stragglers/slowest_gpu.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline::slowest_gpu_test {
namespace {

constexpr double kWhisker = 2.698;

/// Distribution of a normal draw that is cut off at both whiskers.
double below(double z) {
  const double all = std::erf(kWhisker / std::sqrt(2.0));
  return (0.5 * std::erfc(-z / std::sqrt(2.0)) - 0.5 * (1 - all)) / all;
}

/// The upper whisker less the integral of the maximum's distribution.
double integrated_maximum(int count) {
  constexpr int kSteps = 20000;
  const double width = 2 * kWhisker / kSteps;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += std::pow(below(-kWhisker + (i + 0.5) * width), count) * width;
  return kWhisker - sum;
}

TEST(SlowestGpu, IsTheExpectedMaximum) {
  EXPECT_EQ(expected_maximum(1), 0);
  double last = 0;
  for (const int count : {2, 3, 8, 64, 500, 4096, 100'000, 1 << 20}) {
    const double found = expected_maximum(count);
    EXPECT_NEAR(found, integrated_maximum(count), (count < 4 ? 0.08 : 0.03) * found) << count;
    EXPECT_GT(found, last) << count;
    EXPECT_LT(found, kWhisker) << count;
    last = found;
  }
}

TEST(SlowestGpu, IsAFewPercentSlower) {
  EXPECT_EQ(slowest_gpu(1), 1);
  EXPECT_NEAR(slowest_gpu(8), 1.021, 0.001);
  EXPECT_NEAR(slowest_gpu(1 << 20), 1.04, 0.0005) << "half of 8 %";
}

}  // namespace
}  // namespace plumbline::slowest_gpu_test
