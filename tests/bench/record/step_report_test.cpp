// Steps one by one: disturbances, the interval of their median, several rounds of one cell.
#include "bench/record/step_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/record/rounds_of_cell.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::step_report_test {
namespace {

using testing::HasSubstr;

std::vector<StepReport> steps_with(double others, double seconds, double waited = StepReport::kUnknown) {
  return {{{seconds}, others, 0, waited}, {{seconds}, others, 0, waited}};
}

TEST(Disturbance, IsAShareOfTheProcessorsAndNotACountersTick) {
  struct Case {
    const char* name;
    std::vector<StepReport> steps;
    bool disturbed;
  };
  const Case cases[] = {
      {"nothing", steps_with(0, 1), false},
      {"a shell and a clock", steps_with(0.03, 1), false},
      {"a neighbour", steps_with(0.08, 1), true},
      {"the ticks of ten milliseconds", steps_with(0.2, 0.01), false},
      {"a whole processor of two for ten milliseconds", steps_with(0.9, 0.01), true},
      {"ranks that wait", steps_with(0.01, 0.01, 0.06), true},
      {"not known", steps_with(StepReport::kUnknown, 1), false},
      {"no step", {}, false},
  };
  for (const Case& c : cases) EXPECT_EQ(disturbance_of(c.steps, 2).disturbed, c.disturbed) << c.name;
  // A long step counts more.
  EXPECT_NEAR(disturbance_of({{{3}, 0.2, 0, 0}, {{1}, 0, 0, 0}}, 2).others, 0.15, 1e-12);
}

// Steps of 1.4 ms on two busy processors: a counter in ticks of 10 ms sees nothing in most steps and 20 ms in
// one of seven.
TEST(Disturbance, ShortStepsAreRightInTheMean) {
  std::vector<StepReport> steps;
  for (int i = 0; i < 350; ++i) {
    const double busy = i % 7 == 0 ? 0.02 : 0;
    steps.push_back({{0.0014}, (busy - 0.0028) / 0.0028, 0, 0.001});
  }
  const DisturbanceReport report = disturbance_of(steps, 2);
  EXPECT_LT(report.others, 0.05);
  EXPECT_FALSE(report.disturbed);
  clip_shares(steps);
  EXPECT_EQ(steps[1].others, 0);
  EXPECT_GT(steps[0].others, 6);
}

TEST(Disturbance, SaysWhat) {
  DisturbanceReport report{0.5, 0.01, 0.2, true, 0};
  EXPECT_EQ(what_disturbed(report),
            "other programs used 50 % of the processors, ranks waited 20 % of their time for a processor");
  EXPECT_EQ(worst_share(report), 0.5);
  EXPECT_EQ(worst_share(DisturbanceReport{}), 0);
}

TEST(Interval, HoldsTheMedianNineteenTimesOfTwenty) {
  const auto of = [](std::initializer_list<double> seconds) {
    std::vector<StepReport> steps;
    for (const double each : seconds) steps.push_back({{each}});
    return interval_of(steps);
  };
  EXPECT_EQ(of({3}).low.value, 3);
  EXPECT_EQ(of({3, 1, 2}).low.value, 1) << "of few steps all";
  EXPECT_EQ(of({3, 1, 2}).high.value, 3);
  // Nine values: P(at most 1 of 9 coins shows heads) = 10/512 < 0.025, so the second and the eighth.
  EXPECT_EQ(of({9, 8, 7, 6, 5, 4, 3, 2, 1}).low.value, 2);
  EXPECT_EQ(of({9, 8, 7, 6, 5, 4, 3, 2, 1}).high.value, 8);
  EXPECT_EQ(of({8, 7, 6, 5, 4, 3, 2, 1}).low.value, 1) << "9/256 is more";
  EXPECT_THROW(of({}), Error);
}

TEST(StepReports, HostileJsonIsRefused) {
  const OrderedJson good = to_json(sample_record("a"));
  struct Case {
    const char* pointer;
    OrderedJson value;
    const char* message;
  };
  const Case cases[] = {
      {"/measurement/steps/0/others", -1, "others"},
      {"/measurement/steps", 3, "steps"},
      {"/measurement/disturbance/disturbed", 1, "disturbed"},
      {"/measurement/step_interval_s", OrderedJson::array({1}), ""},
      {"/measurement/rounds", 0, "rounds"},
      {"/prediction/step_interval_s", OrderedJson::array({2, 1}), "two ascending numbers"},
      {"/probed/speed/compute", "fast", "compute"},
      {"/probed/time/step_s", -1, "step_s"},
  };
  for (const Case& c : cases) {
    OrderedJson wrong = good;
    wrong[OrderedJson::json_pointer(c.pointer)] = c.value;
    if (*c.message == 0) {  // written for others, computed here
      EXPECT_NO_THROW(parse_record(wrong.dump(), "x"));
      continue;
    }
    EXPECT_THAT([&] { parse_record(wrong.dump(), "x"); },
                testing::ThrowsMessage<InputError>(HasSubstr(c.message)))
        << c.pointer;
  }
}

Record round_of(std::vector<double> seconds, bool disturbed = false) {
  Record record = sample_record("a");
  record.measurement->steps.clear();
  for (const double each : seconds) record.measurement->steps.push_back({{each}});
  record.measurement->time.step = {seconds[(seconds.size() - 1) / 2]};
  record.measurement->disturbance = {};
  record.measurement->disturbance.disturbed = disturbed;
  record.measurement->rounds = 1;
  record.error = compare(*record.prediction, *record.measurement, record.probed);
  return record;
}

TEST(Rounds, KeepAllStepsAndTheirMedian) {
  Record second = round_of({1.0, 1.1, 1.2});
  second.probed->time.step = {1.52};
  add_rounds(round_of({0.4, 0.5, 0.6}), second);
  EXPECT_EQ(second.measurement->rounds, 2);
  EXPECT_EQ(second.measurement->samples, 6);
  EXPECT_EQ(second.measurement->steps.size(), 6U);
  EXPECT_EQ(second.measurement->time.step.value, 0.6) << "the lower of the two in the middle";
  EXPECT_EQ(second.measurement->step_min.value, 0.4);
  EXPECT_EQ(second.measurement->step_max.value, 1.2);
  EXPECT_NEAR(second.measurement->throughput.tokens_per_s, 1000 * 0.5 / 0.6, 1e-9) << "of the nearer round";
  EXPECT_NEAR(second.probed->time.step.value, (0.52 + 1.52) / 2, 1e-12);
  EXPECT_NEAR(second.error->probed_step_time, 1.02 / 0.6 - 1, 1e-12);
}

TEST(Rounds, ADisturbedOneDoesNotCountNextToAQuietOne) {
  Record second = round_of({5}, true);
  add_rounds(round_of({0.5}), second);
  EXPECT_EQ(second.measurement->time.step.value, 0.5);
  EXPECT_FALSE(second.disturbed());
  EXPECT_EQ(second.measurement->rounds, 2);
  Record third = round_of({0.5});
  add_rounds(round_of({5}, true), third);
  EXPECT_EQ(third.measurement->time.step.value, 0.5);
  EXPECT_FALSE(third.disturbed());
}

}  // namespace
}  // namespace plumbline::step_report_test
