// The machine speed during a cell, from probes and from the system's counters.
#include "bench/measure/calibrate/speed_of_moment.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace plumbline::speed_of_moment_test {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

ProbeLook look(double longer, double waited) {
  ProbeLook probe;
  probe.longer = every_class(longer);
  probe.load.wall = {1};
  probe.load.waited = waited;
  return probe;
}

TEST(SpeedOfMoment, LooksAsDisturbedAsTheCellCount) {
  struct Case {
    double waited_before, waited_after;
    bool disturbed;
    double speed;
  };
  for (const Case& c :
       {Case{0, 0, false, 2}, Case{0, 0.2, false, 1}, Case{0.2, 0, false, 3}, Case{0.2, 0.2, false, 1},
        Case{0.2, 0.2, true, 2}, Case{0, 0.2, true, 3}, Case{0, 0, true, 2}}) {
    const ByClass speed = speed_during(look(1, c.waited_before), look(3, c.waited_after), c.disturbed, 2);
    EXPECT_EQ(speed, every_class(c.speed)) << c.waited_before << ' ' << c.waited_after << ' ' << c.disturbed;
  }
  EXPECT_TRUE(is_disturbed(look(1, 0.06), 2));
  EXPECT_FALSE(is_disturbed(look(1, 0.04), 2));
}

// A correction within its own noise is none.
TEST(SpeedDuring, OnlyASignificantChangeCounts) {
  struct Case {
    double before, after, error, speed;
  };
  for (const Case& c : {Case{1.01, 1.03, 0.02, 1}, Case{1.1, 1.12, 0.02, 1.11}, Case{0.99, 0.97, 0.02, 1},
                        Case{0.9, 0.9, 0.02, 0.9}, Case{1.03, 1.03, 0, 1.03}}) {
    ProbeLook before = look(c.before, 0), after = look(c.after, 0);
    before.error = after.error = every_class(c.error);
    EXPECT_NEAR(speed_during(before, after, false, 2).compute, c.speed, 1e-12) << c.before << ' ' << c.after;
  }
}

using LostByRank = std::vector<double>;

/// Losses of the step of 2 s, the median one; nearly all of the others was lost.
MeasurementReport measured(const LostByRank& lost, bool disturbed = true) {
  const LostByRank most(lost.size(), 0.9);
  MeasurementReport measurement;
  measurement.time.step = {2};
  for (const double length : {1.0, 2.0, 3.0}) {
    StepReport& step = measurement.steps.emplace_back();
    step.time = {length};
    step.lost.assign(16, length == 2 ? lost : most);
  }
  measurement.disturbance.disturbed = disturbed;
  return measurement;
}

void expect_stretch(const MeasurementReport& measurement, const RanksOnMachine& on,
                    const std::vector<double>& expected) {
  const std::vector<double> stretch = stretch_by_others(measurement, on);
  ASSERT_EQ(stretch.size(), expected.size());
  for (std::size_t i = 0; i < stretch.size(); ++i) {
    EXPECT_NEAR(stretch[i], expected[i], 1e-9)
        << on.ranks << " ranks on " << on.processors << ", " << on.in_step << " in step, pipeline rank " << i;
  }
}

// Two ranks and one endless program on two processors. Each has a processor for two thirds of the time; both
// ranks have one for a third, while the program has none. Measured with the demo model: 3.0 times with two
// tensor ranks, 1.6 with two replicas.
TEST(SpeedOfMoment, AStepGoesOnWhileAllRanksInStepHaveAProcessor) {
  struct Case {
    RanksOnMachine on;
    double lost, stretch;
  };
  constexpr double kThird = 1 / 3.0;
  for (const Case& c : {Case{{1, 2, 1}, 0, 1},  // the neighbour has the other processor
                        Case{{2, 2, 1}, kThird, 1.5}, Case{{2, 2, 2}, kThird, 3},
                        Case{{2, 2, 2}, 0.1, 1.25},  // the neighbour is there now and then
                        Case{{2, 2, 2}, 0.5, 4},     // one on each
                        Case{{2, 2, 1}, 0.5, 2}, Case{{2, 2, 1}, 0.75, 4}, Case{{1, 1, 1}, 0.25, 4 / 3.0},
                        Case{{2, 8, 2}, kThird, 3},  // two processors are in use
                        Case{{2, 2, 1}, kUnknown, 1}, Case{{4, 2, 1}, kThird, 1.5},
                        Case{{4, 2, 4}, kThird, 3}, Case{{4, 2, 4}, 0.5, 2}, Case{{2, 2, 2}, -0.1, 1}}) {
    const LostByRank lost(static_cast<std::size_t>(c.on.ranks), c.lost);
    expect_stretch(measured(lost), c.on, {c.stretch});
  }
}

// One endless program that stays on the first processor, two thirds of which it has.
TEST(SpeedOfMoment, TheRankThatLostMostHoldsUpTheOthers) {
  const LostByRank first = {2 / 3.0, 0}, turns = {2 / 3.0, 0, 2 / 3.0, 0};
  expect_stretch(measured(first), {2, 2, 1}, {3});        // replicas
  expect_stretch(measured(first), {2, 2, 2}, {3});        // tensor ranks
  expect_stretch(measured(first), {2, 2, 1, 2}, {3, 1});  // stages
  expect_stretch(measured(turns), {4, 2, 1, 4}, {3, 1, 3, 1});
  expect_stretch(measured(turns), {4, 2, 1, 2}, {3, 3});
  expect_stretch(measured(turns), {4, 2, 2, 2}, {3, 3});
  // Two tensor ranks of the second stage on other processors than the first's.
  expect_stretch(measured({2 / 3.0, 0, 0, 0}), {4, 4, 2, 2}, {3, 1});
  expect_stretch(measured({2 / 3.0, kUnknown}), {2, 2, 1, 2}, {1, 1});
  // Four ranks in step of six: the other two are all there is of the next ones.
  expect_stretch(measured({0, 0, 0, 0, 0.5, 0.5}), {6, 8, 4}, {4});
}

// Eight ranks, two of them in step, on two processors: a build that ran for 70 % of the step made it 1.6
// times as long, an endless loop that has the same share of the whole step three times.
TEST(SpeedOfMoment, WhatComesAndGoesWithinAStepIsNotOneNeighbourForAllOfIt) {
  MeasurementReport measurement = measured(LostByRank(8, 0.5));
  std::vector<LostByRank>& parts = measurement.steps[1].lost;
  for (int part = 0; part < 4; ++part) parts[static_cast<std::size_t>(part)].assign(8, 0);
  parts[4].assign(8, -0.1);  // a counter lagged behind
  parts[5].assign(8, 0.1);
  expect_stretch(measurement, {8, 2, 2}, {1 / (6 / 16.0 + 10 / 16.0 * 0.5)});
  expect_stretch(measurement, {2, 2, 2}, {1 / (6 / 16.0 + 10 / 16.0 * 0.25)});
}

TEST(SpeedOfMoment, ShortStepsAreLookedAtTogether) {
  MeasurementReport measurement = measured({0.2, 0.2, 0.2, 0.2});
  measurement.time.step = {0.002};
  for (std::size_t i = 0; i < 3; ++i)
    measurement.steps[i].lost.assign(16, LostByRank(4, 0.1 * static_cast<double>(i)));
  expect_stretch(measurement, {4, 4, 1}, {1 / 0.9});
  expect_stretch(measurement, {4, 2, 1}, {1 / 0.9});
  measurement.disturbance.disturbed = false;
  expect_stretch(measurement, {4, 2, 1}, {1});
  expect_stretch(measurement, {4, 4, 1}, {1 / 0.9});
}

TEST(SpeedOfMoment, WithoutCountersNothingIsStretched) {
  MeasurementReport measurement = measured({0.5});
  for (StepReport& step : measurement.steps) step.lost.clear();
  expect_stretch(measurement, {1, 2, 1}, {1});
  measurement.steps.clear();
  expect_stretch(measurement, {2, 2, 1, 2}, {1, 1});
}

}  // namespace
}  // namespace plumbline::speed_of_moment_test
