// What else a machine does: readings of this one, and shares from given ones.
#include "core/run/step_load.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline {
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
}

}  // namespace
}  // namespace plumbline
