// Change points: a seeded slowdown of 5 % is found, and histories of noise alone have none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// Multiplies the values of a cell by 1.05 from a folder on.
void slow_down(std::vector<double>& cell, std::size_t from) {
  for (std::size_t i = from; i < cell.size(); ++i) cell[i] *= 1.05;
}

/// Multiplies the values of each folder by noise that all cells share.
void share_noise(std::mt19937& random, Series& series, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  for (std::size_t folder = 0; folder < series.front().size(); ++folder) {
    const double factor = std::exp(normal(random));
    for (std::vector<double>& cell : series) cell[folder] *= factor;
  }
}

/// A cell of ten folders becomes 5 % slower, with noise of 0.5 %: found at its folder.
TEST(ChangePoints, ASlowdownOfFivePercentIsFound) {
  std::mt19937 random(101);
  int late = 0, missed = 0, missed_newest = 0;
  for (int trial = 0; trial < 350; ++trial) {
    Series series = noise(random, 8, 10, 0.005);
    const std::size_t cell = static_cast<std::size_t>(trial) % 8;
    const std::size_t from = 3 + static_cast<std::size_t>(trial) % 7;
    slow_down(series[cell], from);
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
  EXPECT_LE(late, 1);
  EXPECT_LE(missed, 1) << "of 300";
  EXPECT_LE(missed_newest, 7) << "of 50";
}

/// Histories of a hundred in which a slowdown of 5 % is the only change found.
struct Noisier {
  std::size_t cells;
  std::size_t folders;
  std::size_t from;
  double own;
  double shared;
  bool all;   // cells are slower
  int least;  // found
};

/// Noise of 1 % and more: in the middle it is found mostly, in the newest folder where all cells tell.
TEST(ChangePoints, ASlowdownIsFoundInNoisierHistories) {
  std::mt19937 random(102);
  for (const Noisier& each :
       {Noisier{8, 10, 5, 0.01, 0, false, 70}, Noisier{20, 10, 5, 0.01, 0, false, 80},
        Noisier{8, 20, 10, 0.01, 0, false, 97}, Noisier{8, 10, 5, 0.005, 0.02, false, 97},
        Noisier{8, 10, 9, 0.005, 0.02, false, 75}, Noisier{8, 10, 5, 0.01, 0, true, 97},
        Noisier{8, 10, 9, 0.01, 0, true, 75}}) {
    int found = 0;
    for (std::size_t trial = 0; trial < 100; ++trial) {
      Series series = noise(random, each.cells, each.folders, each.own);
      share_noise(random, series, each.shared);
      for (std::size_t i = 0; i < each.cells; ++i)
        if (each.all || i == trial % each.cells) slow_down(series[i], each.from);
      const std::vector<ChangePoint> points = change_points(series);
      const bool right = std::all_of(points.begin(), points.end(), [&](const ChangePoint& point) {
        return (each.all || point.series == trial % each.cells) && point.relative() > 0;
      });
      found += right && points.size() >= (each.all ? each.cells - 1 : 1) ? 1 : 0;
    }
    EXPECT_GE(found, each.least) << each.cells << " cells, " << each.folders << " folders, from " << each.from
                                 << ", noise " << each.own << ", shared " << each.shared;
  }
}

TEST(ChangePoints, NoiseAloneHasNone) {
  std::mt19937 random(103);
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

/// Changes of any size are found as rarely as the significance says: cells whose noise differs by a factor of
/// up to 3, noise that they share, missing values.
TEST(ChangePoints, TheSignificanceBoundsFalseAlarms) {
  std::mt19937 random(104);
  std::uniform_real_distribution<double> uniform(0, 1);
  constexpr int kTrials = 500;
  constexpr double kExpected = 0.02 * kTrials;
  for (const double shared : {0.0, 0.01, 0.02}) {
    int alarms = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Series series;
      for (int cell = 0; cell < 3 + trial % 8; ++cell)
        series.push_back(noise(random, 1, 10, 0.005 * std::pow(3, uniform(random))).front());
      share_noise(random, series, shared);
      if (trial % 2 == 0) series[0][static_cast<std::size_t>(trial) % 10] = std::nan("");
      alarms += change_points(series, {0.02, 0}).empty() ? 0 : 1;
    }
    EXPECT_LE(alarms, kExpected + 2 * std::sqrt(kExpected)) << shared;  // two standard errors
  }
}

/// A tenth slower in ten small steps, in one cell and in all.
TEST(ChangePoints, ADriftIsFound) {
  std::mt19937 random(105);
  for (const std::size_t drifting : {1U, 8U}) {
    Series series = noise(random, 8, 10, 0.01);
    for (std::size_t i = 0; i < drifting; ++i)
      for (std::size_t folder = 0; folder < 10; ++folder)
        series[i][folder] *= 1 + 0.1 * static_cast<double>(folder) / 9;
    const std::vector<ChangePoint> found = change_points(series);
    EXPECT_GE(found.size(), drifting);
    for (const ChangePoint& point : found) {
      EXPECT_LT(point.series, drifting);
      EXPECT_GT(point.relative(), 0.02);
    }
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
