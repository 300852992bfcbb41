// Repeats of disturbed cells take a third of a matrix' time at most.
#include "bench/matrix/matrix_time.hpp"

#include <gtest/gtest.h>

namespace plumbline::matrix_time_test {
namespace {

/// A matrix of `cells` disturbed cells, each to be repeated twice: time of repeats relative to the rest.
double share_of_repeats(int cells, double predicted_s, double took_s) {
  MatrixTime time(Seconds{cells * predicted_s});
  double once = 0;
  double again = 0;
  for (int cell = 0; cell < cells; ++cell) {
    time.measured({predicted_s}, {took_s});
    once += took_s;
    for (int repeat = 0; repeat < 2 && time.has_time_to_repeat({took_s}); ++repeat) {
      time.repeated({took_s});
      again += took_s;
    }
  }
  return again / once;
}

TEST(MatrixTime, RepeatsHaveABudget) {
  const struct {
    const char* what;
    int cells;
    double predicted_s, took_s, least, most;
  } cases[] = {
      {"as predicted", 12, 20, 20, 0.33, 1.0 / 3},
      {"slower than predicted", 12, 20, 80, 0.3, 1.0 / 3},
      {"quicker than predicted", 12, 80, 20, 0.3, 1.0 / 3},
      {"not predicted", 12, 0, 20, 0.3, 1.0 / 3},
      {"one long cell", 1, 100, 100, 0, 0},
      {"a matrix of seconds", 3, 2, 2, 2, 2},
  };
  for (const auto& c : cases) {
    const double share = share_of_repeats(c.cells, c.predicted_s, c.took_s);
    EXPECT_GE(share, c.least - 1e-9) << c.what;
    EXPECT_LE(share, c.most + 1e-9) << c.what;
  }
}

TEST(MatrixTime, ThePaceIsThatOfTheCellsSoFar) {
  MatrixTime time(Seconds{100});
  EXPECT_EQ(time.pace(), 1);
  time.measured({10}, {40});
  EXPECT_EQ(time.pace(), 4);
  time.measured({10}, {20});
  EXPECT_EQ(time.pace(), 3);
}

}  // namespace
}  // namespace plumbline::matrix_time_test
