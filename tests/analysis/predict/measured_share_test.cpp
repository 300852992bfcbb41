#include "analysis/predict/measured_share.hpp"

#include <gtest/gtest.h>

namespace plumbline::measured_share_test {
namespace {

TEST(MeasuredShare, WeighsPassesByMicroBatchesAndNamesTheLargestEstimate) {
  const std::vector<CostLine> lines = {
      {0, "forward", "fc1 forward", 1, {3}, {}, {}, {3}}, {0, "forward", "attention", 1, {1}, {}, {}, {}},
      {1, "forward", "attention", 1, {1}, {}, {}, {}},    {0, "0F+0B", "exchange", 1, {9}, {}, {}, {}},
      {1, "step", "adam", 1, {10}, {}, {}, {}},
  };
  const MeasuredShare share = measured_share(lines, 4);
  EXPECT_DOUBLE_EQ(share.measured, 12.0 / 30);
  EXPECT_EQ(share.estimated, "adam");
  EXPECT_DOUBLE_EQ(share.estimated_share, 10.0 / 30);
  EXPECT_EQ(measured_share(lines, 8).estimated, "attention");
  EXPECT_DOUBLE_EQ(measured_share({}, 1).measured, 0);
}

}  // namespace
}  // namespace plumbline::measured_share_test
