// The speed of a cell's moment from probes and from what the system counted.
#include "bench/evaluate/speed_of_moment.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace plumbline {
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

MeasurementReport measured(double waited, double others) {
  MeasurementReport measurement;
  measurement.time.step = {2};
  measurement.steps = {{{1}, 0.9, 0, 0.9}, {{2}, others, 0, waited}, {{3}, 0.9, 0, 0.9}};
  measurement.disturbance.disturbed = true;
  return measurement;
}

// Two ranks and one endless program on two processors: each has a processor for two thirds of the time, and both ranks
// have one while the program has none, a third of it. Measured with the demo model: 3.0 times with two tensor ranks, 1.6
// with two replicas.
TEST(SpeedOfMoment, AStepGoesOnWhileAllRanksInStepHaveAProcessor) {
  struct Case {
    RanksOnMachine ranks;
    double waited, others, stretch;
  };
  for (const Case& c :
       {Case{{1, 2, 1}, 0, 0.5, 1},  // the neighbour has the other processor
        Case{{2, 2, 1}, 1 / 3.0, 1 / 3.0, 1.5}, Case{{2, 2, 2}, 1 / 3.0, 1 / 3.0, 3},
        Case{{2, 2, 2}, 0.1, 0.1, 1.25},  // the neighbour is there now and then
        Case{{2, 2, 2}, 0.5, 0.5, 4},     // one on each
        Case{{2, 2, 1}, 0.5, 0.5, 2}, Case{{2, 2, 1}, 0.75, 0.75, 4}, Case{{1, 1, 1}, 0.25, 0.25, 4 / 3.0},
        Case{{2, 8, 2}, 1 / 3.0, 0.9, 3},  // two processors are in use
        Case{{2, 2, 1}, kUnknown, 0.3, 1}, Case{{4, 2, 1}, kUnknown, 1 / 3.0, 1.5},
        Case{{4, 2, 4}, kUnknown, 1 / 3.0, 3}, Case{{4, 2, 4}, kUnknown, 0.5, 2}}) {
    EXPECT_NEAR(stretch_by_others(measured(c.waited, c.others), c.ranks), c.stretch, 1e-9)
        << c.ranks.ranks << " ranks, " << c.ranks.in_step << " in step, waited " << c.waited;
  }
}

// Eight ranks, two of them in step, on two processors: a build that ran for 70 % of the step made it 1.6 times as long, an
// endless loop that has the same share of the whole step three times.
TEST(SpeedOfMoment, WhatComesAndGoesWithinAStepIsNotOneNeighbourForAllOfIt) {
  MeasurementReport measurement = measured(0.35, 0.35);
  std::vector<PartOfStep>& parts = measurement.steps[1].parts;
  parts.assign(16, {0.5, 0.5});
  for (int part = 0; part < 4; ++part) parts[static_cast<std::size_t>(part)] = {0, 0};
  parts[4] = {-0.1, -0.1};  // counted late
  parts[5] = {0.1, 0.1};
  EXPECT_NEAR(stretch_by_others(measurement, {8, 2, 2}), 1 / (6 / 16.0 + 10 / 16.0 * 0.5), 1e-9);
  EXPECT_NEAR(stretch_by_others(measurement, {2, 2, 2}), 1 / (6 / 16.0 + 10 / 16.0 * 0.25), 1e-9);
  parts.assign(16, {1 / 3.0, 1 / 3.0});
  EXPECT_NEAR(stretch_by_others(measurement, {8, 2, 2}), 3, 1e-9);
  parts.assign(16, {-0.1, -0.1});
  EXPECT_EQ(stretch_by_others(measurement, {8, 2, 2}), 1);
}

TEST(SpeedOfMoment, ShortStepsAreLookedAtTogether) {
  MeasurementReport measurement = measured(0.4, 0.4);
  measurement.time.step = {0.002};
  measurement.disturbance.waited = 0.2;
  measurement.disturbance.others = 0.25;
  EXPECT_NEAR(stretch_by_others(measurement, {2, 2, 1}), 1.25, 1e-9);
  EXPECT_NEAR(stretch_by_others(measurement, {4, 2, 1}), 1 / 0.75, 1e-9);
  measurement.disturbance.disturbed = false;
  EXPECT_EQ(stretch_by_others(measurement, {4, 2, 1}), 1) << "the counters' ticks may be more than that";
}

}  // namespace
}  // namespace plumbline
