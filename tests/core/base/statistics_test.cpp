// Medians of odd and even counts, where they stand, and means.
#include "core/base/statistics.hpp"

#include <gtest/gtest.h>

#include "core/base/units.hpp"

namespace plumbline::statistics_test {
namespace {

TEST(Statistics, MediansOfOddAndEvenCounts) {
  struct Case {
    std::vector<double> values;
    double lower, middle, upper;
    std::size_t index;  // of the lower one
  };
  const Case cases[] = {
      {{7}, 7, 7, 7, 0},          {{3, 1}, 1, 2, 3, 1},       {{5, 1, 4}, 4, 4, 4, 2},
      {{9, 1, 4, 6}, 4, 5, 6, 2}, {{2, 2, 2, 2}, 2, 2, 2, 1}, {{-1, -3, 8, 0.5, 100}, 0.5, 0.5, 0.5, 3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.values));
    EXPECT_EQ(lower_median(c.values), c.lower);
    EXPECT_EQ(median(c.values), c.middle);
    EXPECT_EQ(upper_median(c.values), c.upper);
    EXPECT_EQ(lower_median_index(c.values), c.index);
  }
}

TEST(Statistics, MediansOfUnits) {
  EXPECT_EQ(lower_median(std::vector<Seconds>{{4}, {1}, {3}, {2}}), Seconds{2});
  EXPECT_EQ(upper_median(std::vector<Bytes>{kGiB, kKiB, kMiB, kMiB * 2}), kMiB * 2);
}

TEST(Statistics, AnInterquartileMeanLeavesOutTheLowestAndTheHighestQuarter) {
  struct Case {
    std::vector<double> values;
    double all, middle;
  };
  const Case cases[] = {{{7}, 7, 7},
                        {{1, 2, 6}, 3, 3},  // a quarter of three is none
                        {{100, 2, 4, -6}, 25, 3},
                        {{9, 1, 2, 3, 4, 5, 6, 10, -1000}, -960 / 9.0, 4}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.values));
    EXPECT_DOUBLE_EQ(mean(c.values), c.all);
    EXPECT_DOUBLE_EQ(interquartile_mean(c.values), c.middle);
  }
}

TEST(Statistics, NoValuesHaveNoMedian) {
  const std::vector<double> none;
  EXPECT_THROW(lower_median(none), Error);
  EXPECT_THROW(median(none), Error);
  EXPECT_THROW(upper_median(none), Error);
  EXPECT_THROW(lower_median_index(none), Error);
  EXPECT_THROW(mean(none), Error);
  EXPECT_THROW(interquartile_mean(none), Error);
}

}  // namespace
}  // namespace plumbline::statistics_test
