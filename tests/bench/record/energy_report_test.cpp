// Energy of a step from the power that ranks have read.
#include "bench/record/energy_report.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline::energy_report_test {
namespace {

TEST(EnergyReport, CountsAHostAndAGpuOnce) {
  // Two hosts with two ranks each; those of the second share a GPU.
  const std::vector<RankPower> ranks = {
      {1, 11, 100, 300}, {1, 12, 102, 310}, {2, 21, 200, 400}, {2, 21, 200, 402}};
  const EnergyReport energy = energy_of(ranks, 0.5, 1000);
  EXPECT_DOUBLE_EQ(energy.processors_watt, 301);
  EXPECT_DOUBLE_EQ(energy.gpus_watt, 300 + 310 + 401);
  EXPECT_DOUBLE_EQ(energy.step_joule, (301 + 1011) * 0.5);
  EXPECT_DOUBLE_EQ(energy.token_joule, energy.step_joule / 1000);
}

TEST(EnergyReport, LeavesOutAPartThatIsUnknown) {
  const std::vector<RankPower> ranks = {{1, 0, 100}, {2, 0, EnergyReport::kUnknown}};
  const EnergyReport none = energy_of(ranks, 0.5, 1000);
  EXPECT_TRUE(std::isnan(none.processors_watt)) << "one of two hosts";
  EXPECT_TRUE(std::isnan(none.step_joule));
  EXPECT_TRUE(std::isnan(none.token_joule));
  const EnergyReport processors = energy_of({{1, 0, 100}}, 2, 0);
  EXPECT_EQ(processors.step_joule, 200);
  EXPECT_TRUE(std::isnan(processors.gpus_watt));
  EXPECT_TRUE(std::isnan(processors.token_joule)) << "no tokens";
}

}  // namespace
}  // namespace plumbline::energy_report_test
