// Change points: a seeded slowdown of 5 % is found, and none is invented in histories of noise alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "bench/show/history/change_points.hpp"
#include "bench/show/history/noise_prior.hpp"

namespace plumbline::change_points_test {
namespace {

using Series = std::vector<std::vector<double>>;

/// Cells of different lengths of step, with relative noise of `deviation`.
Series noise(std::mt19937& random, std::size_t cells, std::size_t folders, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  Series series(cells);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (std::size_t folder = 0; folder < folders; ++folder)
      series[cell].push_back((0.1 + static_cast<double>(cell)) * std::exp(normal(random)));
  }
  return series;
}

/// A cell of ten folders becomes 5 % slower, with noise of 0.5 %: found at its folder.
TEST(ChangePoints, ASlowdownOfFivePercentIsFound) {
  std::mt19937 random(1);
  int late = 0, missed = 0, missed_newest = 0;
  for (int trial = 0; trial < 100; ++trial) {
    Series series = noise(random, 8, 10, 0.005);
    const std::size_t cell = static_cast<std::size_t>(trial) % 8;
    const std::size_t from = 3 + static_cast<std::size_t>(trial) % 7;
    for (std::size_t i = from; i < 10; ++i) series[cell][i] *= 1.05;
    const std::vector<ChangePoint> found = change_points(series);
    if (found.empty()) {
      ++(from == 9 ? missed_newest : missed);  // one value says less than several
      continue;
    }
    ASSERT_EQ(found.size(), 1U) << trial << " from " << from;
    EXPECT_EQ(found.front().series, cell);
    late += found.front().at != from ? 1 : 0;
    EXPECT_NEAR(found.front().relative(), 0.05, 0.015);
    EXPECT_LT(found.front().probability, 0.001);
  }
  EXPECT_LE(late, 2);
  EXPECT_LE(missed, 1) << "of 86";
  EXPECT_LE(missed_newest, 5) << "of 14";
}

TEST(ChangePoints, NoiseAloneHasNone) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const double deviation = 0.002 + 0.0002 * trial;  // up to 4 %
    const auto cells = static_cast<std::size_t>(1 + trial % 12);
    EXPECT_TRUE(change_points(noise(random, cells, 10, deviation)).empty()) << trial;
  }
  // One noisy cell among quiet ones is no change either.
  for (int trial = 0; trial < 200; ++trial) {
    Series series = noise(random, 6, 10, 0.003);
    series.push_back(noise(random, 1, 10, 0.012).front());
    EXPECT_TRUE(change_points(series).empty()) << trial;
  }
}

TEST(ChangePoints, SeveralStepsAndMissingValues) {
  const double missing = std::nan("");
  const Series series = {{1.00, 1.001, 0.999, missing, 1.1, 1.101, 1.099, 1.0, 1.001, 0.999},
                         {2, 2.001, 1.999, 2.0, 2.001, 2.0, 1.999, 2.0, 2.001, 2.0},
                         {missing, 3},
                         {}};
  const std::vector<ChangePoint> found = change_points(series);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at, 4U);
  EXPECT_NEAR(found[0].relative(), 0.1, 0.002);
  EXPECT_EQ(found[1].at, 7U);
  EXPECT_NEAR(found[1].relative(), -0.091, 0.002);
  EXPECT_TRUE(change_points(series, {0.001, 0.2}).empty()) << "all below the tolerance";
}

/// Tables of Student's distribution.
TEST(ChangePoints, TailsOfStudent) {
  EXPECT_NEAR(student_tails(12.706, 1), 0.05, 1e-5);
  EXPECT_NEAR(student_tails(2.306, 8), 0.05, 1e-4);
  EXPECT_NEAR(student_tails(5.041, 8), 0.001, 1e-5);
  EXPECT_NEAR(student_tails(-3.496, 50), 0.001, 1e-5);
  EXPECT_NEAR(student_tails(0, 5), 1, 1e-12);
}

}  // namespace
}  // namespace plumbline::change_points_test
