#include "analysis/silicon/time_grid.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace plumbline::silicon::time_grid_test {
namespace {

using Point = std::array<double, 2>;
using Law = std::function<double(double, double)>;

/// 4 x 5 points of `law`, without those that `left_out` names.
TimeGrid grid_of_law(Spacing first, Spacing second, const Law& law,
                     const std::function<bool(std::size_t, std::size_t)>& left_out = {},
                     const SecondsOfPoint& model = {}) {
  const std::vector<double> a = {1, 2, 4, 16}, b = {10, 20, 50, 100, 1000};
  TimeGrid grid({{a, first}, {b, second}}, model);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (left_out && left_out(i, j)) continue;
      grid.set(std::array<std::size_t, 2>{i, j}, law(a[i], b[j]));
    }
  }
  grid.fill();
  return grid;
}

struct LawCase {
  const char* name;
  Spacing first, second;
  Law law;
};

const LawCase kLaws[] = {
    {"power law on logarithmic axes", Spacing::logarithmic, Spacing::logarithmic,
     [](double a, double b) { return 3e-6 * a * std::pow(b, 1.5); }},
    {"fixed part and bytes on a linear axis", Spacing::logarithmic, Spacing::linear,
     [](double, double b) { return 5e-6 + 2e-9 * b; }},
    {"fixed part and 1/ranks on an inverse axis", Spacing::inverse, Spacing::linear,
     [](double a, double b) { return 1e-6 + 4e-8 * b / a; }},
};

TEST(TimeGrid, GivesALawExactlyOnAxesThatFitIt) {
  for (const LawCase& each : kLaws) {
    const TimeGrid grid = grid_of_law(each.first, each.second, each.law);
    for (const Point point : {Point{1, 10}, Point{3, 30}, Point{7, 500}, Point{16, 999}}) {
      const auto found = grid.at(point);
      ASSERT_TRUE(found) << each.name;
      EXPECT_NEAR(found->seconds / each.law(point[0], point[1]), 1, 1e-9)
          << each.name << ", " << point[0] << ", " << point[1];
    }
  }
}

TEST(TimeGrid, FillsPointsThatWereNotMeasured) {
  for (const LawCase& each : kLaws) {
    const TimeGrid grid = grid_of_law(each.first, each.second, each.law,
                                      [](std::size_t i, std::size_t j) { return (i + 2 * j) % 4 == 1; });
    const auto inside = grid.at(Point{2, 50});  // left out, with neighbours on both sides
    EXPECT_NEAR(inside->seconds / each.law(2, 50), 1, 1e-9) << each.name;
    EXPECT_EQ(inside->basis, Basis::interpolated) << each.name;
  }
}

TEST(TimeGrid, GoesOnAtTheLastSlopeOfALinearAxis) {
  const auto last = [](std::size_t, std::size_t j) { return j == 4; };
  for (const LawCase& each : kLaws) {
    if (each.second != Spacing::linear) continue;
    const TimeGrid grid = grid_of_law(each.first, each.second, each.law, last);
    for (const double b : {100.0, 400.0, 1000.0, 1001.0, 4000.0})
      EXPECT_NEAR(grid.at(Point{2, b})->seconds / each.law(2, b), 1, 1e-9) << each.name << ", " << b;
  }
}

TEST(TimeGrid, GoesOnAtLeastAsTheModelAndAtMostInProportion) {
  struct Case {
    double slope, expected;
  };
  for (const Case& each : {Case{1e-9, 13e-6}, Case{4e-9, 19e-6}, Case{1e-8, 28e-6}}) {
    const TimeGrid grid = grid_of_law(Spacing::logarithmic, Spacing::linear, kLaws[1].law, {},
                                      [&](std::span<const double> size) { return each.slope * size[1]; });
    EXPECT_NEAR(grid.at(Point{2, 4000})->seconds, each.expected, 1e-12) << each.slope;
    EXPECT_NEAR(grid.at(Point{2, 1000 * (1 + 1e-9)})->seconds, kLaws[1].law(2, 1000), 1e-12) << "a step";
  }
}

TEST(TimeGrid, SaysWhatATimeRestsOn) {
  const TimeGrid grid = grid_of_law(Spacing::logarithmic, Spacing::logarithmic, kLaws[0].law,
                                    [](std::size_t, std::size_t j) { return j == 4; });
  EXPECT_EQ(grid.at(Point{2, 50})->basis, Basis::measured);
  EXPECT_EQ(grid.at(Point{2, 60})->basis, Basis::interpolated);
  EXPECT_EQ(grid.at(Point{2, 1000})->basis, Basis::estimated) << "on the grid, but no line ends there";
  const auto outside = grid.at(Point{32, 50});
  EXPECT_EQ(outside->basis, Basis::estimated);
  EXPECT_NEAR(outside->seconds / kLaws[0].law(16, 50), 1, 1e-9);
}

TEST(TimeGrid, HasNoTimesWithoutPoints) {
  TimeGrid grid({{{1, 2}, Spacing::linear}});
  grid.fill();
  EXPECT_FALSE(grid.at(std::array<double, 1>{1}));
}

TEST(TimeGrid, RefusesAxesThatAreNone) {
  for (const std::vector<double>& values : {std::vector<double>{}, {0, 1}, {2, 1}, {1, 1}}) {
    EXPECT_THROW(TimeGrid({{values, Spacing::linear}}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace plumbline::silicon::time_grid_test
