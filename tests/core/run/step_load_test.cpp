// Other load of a machine: readings of this one, and shares from given ones.
#include "core/run/step_load.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plumbline::step_load_test {
namespace {

RankLoad load(double wall, double busy, double own, double waited) {
  return {{wall}, {busy}, {0.25}, {own}, {waited}, 3, 2e9};
}

TEST(StepLoad, OthersAreWhatIsBusyAndNotOurs) {
  // Two processors for 2 s: 3 s busy, 2.5 s of them ours.
  const StepLoad step = step_load_of({load(2, 3, 1.5, 0.1), load(2, 9, 1, 0.3)}, 2);
  EXPECT_DOUBLE_EQ(step.others, 0.5 / 4);
  EXPECT_DOUBLE_EQ(step.stolen, 0.25 / 4);
  EXPECT_DOUBLE_EQ(step.waited, 0.4 / 4);
  EXPECT_DOUBLE_EQ(step.involuntary, 6);
  EXPECT_DOUBLE_EQ(step.frequency, 2e9);
}

TEST(StepLoad, MoreRanksThanProcessorsWaitForOneAnother) {
  EXPECT_TRUE(std::isnan(step_load_of({load(1, 1, 0.5, 0.5), load(1, 1, 0.5, 0.5)}, 1).waited));
}

TEST(StepLoad, WhatCannotBeReadIsNotKnown) {
  RankLoad unknown = load(1, 1, 1, 0);
  unknown.busy = unknown.stolen = {std::numeric_limits<double>::quiet_NaN()};
  const StepLoad step = step_load_of({unknown}, 2);
  EXPECT_TRUE(std::isnan(step.others));
  EXPECT_TRUE(std::isnan(step.stolen));
}

RankLoad bound(double own, double waited, Affinity affinity) {
  RankLoad rank = load(2, 3, own, waited);
  rank.affinity = affinity;
  return rank;
}

TEST(StepLoad, ARankLosesWhatItWaitsForOthers) {
  constexpr Affinity kFirst{0, 1}, kSecond{1, 1}, kBoth{0, 2};
  struct Case {
    std::vector<RankLoad> ranks;
    std::vector<double> lost;
  };
  for (const Case& c : {
           Case{{bound(0.5, 1.5, kFirst), bound(2, 0, kSecond)}, {0.75, 0}},
           Case{{bound(0.5, 0.5, kFirst)}, {0.25}},  // it slept for half of the time
           Case{{bound(0.5, 1.5, kBoth), bound(1.5, 0.5, kBoth)}, {0.75, 0.25}},
           // Two on a processor wait for each other as well.
           Case{{bound(0.5, 1.5, kFirst), bound(0.75, 1.25, kSecond), bound(0.25, 1.75, kFirst),
                 bound(1.25, 0.75, kSecond)},
                {0.625, 0, 0.625, 0}},
           Case{{bound(0.5, 1.5, kBoth), bound(0.5, 1.5, kBoth), bound(1, 1, kBoth)}, {0.5, 0.5, 0.5}},
       }) {
    const std::vector<double> lost = lost_by_rank(c.ranks);
    ASSERT_EQ(lost.size(), c.lost.size());
    for (std::size_t i = 0; i < lost.size(); ++i) EXPECT_NEAR(lost[i], c.lost[i], 1e-12) << i;
  }
  EXPECT_TRUE(std::isnan(lost_by_rank({bound(1, std::numeric_limits<double>::quiet_NaN(), kFirst)}).front()));
}

TEST(StepLoad, ACounterThatLagsBehindIsMadeUpForByLaterSteps) {
  EXPECT_DOUBLE_EQ(step_load_of({load(1, 0.5, 0.7, 0)}, 2).others, -0.1);
}

TEST(MachineLoad, OwnWorkIsCounted) {
  const LoadReading before = read_load();
  double sum = 0;
  LoadReading after = read_load();
  while ((after.own - before.own).value < 0.05) {
    for (int i = 0; i < 100'000; ++i) sum += std::sqrt(i);
    after = read_load();
  }
  EXPECT_GT(sum, 0);
  const RankLoad passed = difference(after, before);
  EXPECT_GE(passed.own.value, 0.05);
  EXPECT_GE(passed.wall.value, 0.04);
  EXPECT_FALSE(passed.busy.value < 0);
  EXPECT_FALSE(passed.waited.value < 0);
  EXPECT_EQ(passed.affinity, thread_affinity());
}

}  // namespace
}  // namespace plumbline::step_load_test
