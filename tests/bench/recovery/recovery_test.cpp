// What is injected, and what of the time of a run that it hits counts as what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/recovery/failure_spec.hpp"
#include "bench/recovery/recovering_run.hpp"
#include "bench/recovery/run_history.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FailureSpecText, SaysWhatIsInjected) {
  const FailureSpec spec =
      parse_failure_spec("mtbf=2.5min,kinds=kill,hang,disk,seed=9,most=2,hang_timeout=500ms");
  EXPECT_DOUBLE_EQ(spec.mtbf.value, 150);
  EXPECT_THAT(spec.kinds, ElementsAre(Injected::kill, Injected::hang, Injected::disk));
  EXPECT_EQ(spec.seed, 9U);
  EXPECT_EQ(spec.most, 2U);
  EXPECT_DOUBLE_EQ(spec.hang_timeout.value, 0.5);
  EXPECT_THAT(parse_failure_spec("mtbf=30s").kinds, ElementsAre(Injected::kill));
}

TEST(FailureSpecText, IsRefusedInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected mtbf=TIME"},
      {"kinds=kill", "expected mtbf=TIME"},
      {"30s", "expected KEY=VALUE"},
      {"mtbf=30", "expected a time from 10ms to 1000h"},
      {"mtbf=-1s", "expected a time"},
      {"mtbf=nans", "expected a time"},
      {"mtbf=1e9h", "expected a time"},
      {"mtbf=30s,kill", "expected KEY=VALUE"},
      {"mtbf=30s,kinds=flood", "expected kill, hang or disk"},
      {"mtbf=30s,kinds=", "expected kill, hang or disk"},
      {"mtbf=30s,seed=x", "expected a whole number"},
      {"mtbf=30s,rank=1", "expected one of the keys mtbf, kinds, seed, most, hang_timeout"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      parse_failure_spec(text);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected)) << text;
    }
  }
}

struct Line {
  double at;
  const char* text;
};

void hear_all(RunHistory& history, const std::vector<Line>& lines) {
  for (const Line& line : lines) history.hear(line.text, {line.at});
}

TEST(RunHistory, TimeIsUsefulLostOrSpentOnGettingBack) {
  RunHistory history;
  history.attempt_begins({0});
  hear_all(history,
           {{10, "next is step 1 of 4"},
            {11, "step 1 of 4, loss 2.0"},
            {12, "step 2 of 4, loss 1.9"},
            {12.5, "checkpoint of step 2 complete: stood still 0.500000 s, durable after 0.750000 s"},
            {13.5, "step 3 of 4, loss 1.8"}});
  history.failed("kill", 1, {14});
  history.ended(2, {14.25});
  EXPECT_FALSE(history.running());
  history.attempt_begins({14.25});
  hear_all(history,
           {{16, "next is step 3 of 4"},
            {17, "step 3 of 4, loss 1.8"},
            {18, "step 4 of 4, loss 1.7"},
            {18.5, "checkpoint of step 4 complete: stood still 0.500000 s, durable after 0.500000 s"}});
  const RecoveryReport report = history.report();
  EXPECT_EQ(report.steps, 4);
  EXPECT_DOUBLE_EQ(report.total.value, 8);
  EXPECT_DOUBLE_EQ(report.stalls.value, 0.5);  // the last one is behind the last step
  EXPECT_DOUBLE_EQ(report.lost.value, 1.5);
  EXPECT_DOUBLE_EQ(report.detect.value, 0.25);
  EXPECT_DOUBLE_EQ(report.restart.value, 1.75);
  EXPECT_DOUBLE_EQ(report.useful.value, 4);
  EXPECT_DOUBLE_EQ(report.step.value, 1);
  EXPECT_DOUBLE_EQ(report.goodput, 0.5);
  EXPECT_DOUBLE_EQ(report.durable.value, 0.625);
  ASSERT_EQ(report.failures.size(), 1U);
  EXPECT_DOUBLE_EQ(report.failures[0].at.value, 4);
  EXPECT_EQ(report.failures[0].lost_steps, 1);
  EXPECT_EQ(report.failures[0].resumed_step, 2);
}

TEST(RunHistory, AFailureWhileStartingAgainIsARestartOfTheOneBefore) {
  RunHistory history;
  hear_all(history, {{0, "next is step 1 of 2"}, {1, "step 1 of 2"}});
  history.failed("hang", 0, {1.5});
  history.ended(0, {2});
  history.failed("kill", 1, {2.75});
  history.ended(0, {3});
  hear_all(history, {{4, "next is step 1 of 2"}, {5, "step 1 of 2"}, {6, "step 2 of 2"}});
  const RecoveryReport report = history.report();
  EXPECT_DOUBLE_EQ(report.failures[0].lost.value, 1.5);
  EXPECT_DOUBLE_EQ(report.failures[0].restart.value, 0.75);
  EXPECT_DOUBLE_EQ(report.failures[1].lost.value, 0);
  EXPECT_DOUBLE_EQ(report.failures[1].restart.value, 1);
  EXPECT_DOUBLE_EQ(report.useful.value, 2);
}

TEST(RunHistory, AFullDiskIsNoEndAndACheckpointThatFailedIsCounted) {
  RunHistory history;
  hear_all(history, {{0, "next is step 1 of 2"}, {1, "step 1 of 2"}});
  history.failed("disk", 0, {1.5});
  hear_all(history, {{1.75, "note: checkpoint of step 1 is not written: full"}, {3, "step 2 of 2"}});
  EXPECT_EQ(history.failed_checkpoints(), 1);
  const RecoveryReport report = history.report();
  EXPECT_DOUBLE_EQ(report.goodput, 1);
  EXPECT_EQ(report.failures.size(), 1U);
}

// Daly's complete model with M = 10, D = 2, s = 0.5 and a recovery of 1: D·exp(-R/M)/(M·(exp((D+s)/M)-1)).
TEST(RecoveryPrediction, IsTheClosedFormOfWhatWasMeasured) {
  RecoveryReport measured;
  measured.step = {0.5};
  measured.stall = {0.5};
  measured.durable = {0.75};
  measured.detect = {0.5};
  measured.restart = {1.5};
  measured.failures = {{"kill", 0, {}, {}, {}, {}, 0, 0},
                       {"disk", 0, {}, {}, {}, {}, 0, 0},
                       {"hang", 0, {}, {}, {}, {}, 0, 0}};
  const training::CheckpointOptions every4{.folder = "x", .interval = 4};
  EXPECT_NEAR(predicted_goodput(measured, every4, {10}), 2 * std::exp(-0.1) / (10 * std::expm1(0.25)), 1e-12);
  training::CheckpointOptions alongside = every4;
  alongside.async = true;  // durable 0.25 s after the stall
  EXPECT_NEAR(predicted_goodput(measured, alongside, {10}),
              2 * std::exp(-0.025) * std::exp(-0.1) / (10 * std::expm1(0.25)), 1e-12);
}

}  // namespace
}  // namespace plumbline
