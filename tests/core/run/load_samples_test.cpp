// A step's load in parts.
#include "core/run/load_samples.hpp"

#include <gtest/gtest.h>

#include <ctime>

#include "core/run/monotonic_clock.hpp"
#include "core/run/step_load.hpp"

namespace plumbline::load_samples_test {
namespace {

LoadReading reading(double at, double busy, double own, double waited) {
  return {{at}, {busy}, {0}, {own}, {waited}, static_cast<std::int64_t>(10 * at), 1e9, {}};
}

TEST(LoadSamples, CountersGrowEvenlyBetweenReadings) {
  const std::vector<LoadReading> readings = {reading(10, 0, 0, 0), reading(11, 2, 0.5, 0),
                                             reading(15, 2, 4.5, 2)};
  struct Case {
    double at, busy, own, waited;
  };
  for (const Case& c : {Case{10, 0, 0, 0}, Case{10.5, 1, 0.25, 0}, Case{11, 2, 0.5, 0}, Case{12, 2, 1.5, 0.5},
                        Case{15, 2, 4.5, 2}}) {
    const LoadReading between = reading_at(readings, {c.at});
    EXPECT_DOUBLE_EQ(between.at.value, c.at);
    EXPECT_DOUBLE_EQ(between.busy.value, c.busy) << c.at;
    EXPECT_DOUBLE_EQ(between.own.value, c.own) << c.at;
    EXPECT_DOUBLE_EQ(between.waited.value, c.waited) << c.at;
    EXPECT_EQ(between.involuntary, static_cast<std::int64_t>(10 * c.at)) << c.at;
  }
  EXPECT_DOUBLE_EQ(reading_at({readings[0], readings[1]}, {10.25}).busy.value, 0.5);
}

void work_for(double seconds) {
  for (const Seconds start = monotonic_now(); (monotonic_now() - start).value < seconds;) {
  }
}

TEST(LoadSamples, PartsOfAStepAreAllOfIt) {
  LoadSamples samples;
  samples.begin();
  work_for(0.12);
  samples.action_ends({});
  const timespec pause{0, 120'000'000};
  nanosleep(&pause, nullptr);
  samples.action_ends({});
  samples.action_ends({});  // too soon to be read again
  samples.end();

  const RankLoad whole = samples.whole();
  const LoadOfParts parts = samples.parts();
  RankLoad sum{};
  for (const RankLoad& part : parts) {
    EXPECT_NEAR(part.wall.value, whole.wall.value / kStepParts, 1e-6);
    sum.busy += part.busy;
    sum.own += part.own;
    sum.waited += part.waited;
    sum.involuntary += part.involuntary;
  }
  EXPECT_NEAR(sum.busy.value, whole.busy.value, 1e-6);
  EXPECT_NEAR(sum.own.value, whole.own.value, 1e-6);
  EXPECT_NEAR(sum.waited.value, whole.waited.value, 1e-6);
  EXPECT_EQ(sum.involuntary, whole.involuntary);
  // It worked in the first half, and slept in the second.
  EXPECT_GT(parts[1].own.value, 10 * parts[kStepParts - 2].own.value);

  const std::vector<std::vector<double>> lost = lost_by_part({parts, parts});
  ASSERT_EQ(lost.size(), std::size_t{kStepParts});
  for (std::size_t i = 0; i < lost.size(); ++i) {
    ASSERT_EQ(lost[i].size(), 2U);
    EXPECT_EQ(lost[i], lost_by_rank({parts[i], parts[i]})) << i;
  }
}

}  // namespace
}  // namespace plumbline::load_samples_test
