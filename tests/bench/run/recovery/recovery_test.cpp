// Injected failures, and the accounting of a run's time with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/run/recovery/failure_sequence.hpp"
#include "bench/run/recovery/failure_spec.hpp"
#include "bench/run/recovery/goodput_prediction.hpp"
#include "bench/run/recovery/run_history.hpp"
#include "core/base/error.hpp"

namespace plumbline::recovery_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FailureSpecText, SaysWhatIsInjected) {
  const FailureSpec spec =
      parse_failure_spec("mtbf=2.5min,kinds=kill,hang,disk,seed=9,most=2,replacement=20s,hang_timeout=500ms");
  EXPECT_DOUBLE_EQ(spec.mtbf.value, 150);
  EXPECT_THAT(spec.kinds, ElementsAre(Injected::kill, Injected::hang, Injected::disk));
  EXPECT_EQ(spec.seed, 9U);
  EXPECT_EQ(spec.most, 2U);
  EXPECT_DOUBLE_EQ(spec.replacement.value, 20);
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
      {"mtbf=30s,rank=1", "expected one of the keys mtbf, kinds, seed, most, replacement, hang_timeout"},
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
  EXPECT_DOUBLE_EQ(report.costs.step.value, 1);
  EXPECT_DOUBLE_EQ(report.goodput, 0.5);
  EXPECT_DOUBLE_EQ(report.costs.stall.value, 0.5);
  EXPECT_DOUBLE_EQ(report.costs.durable.value, 0.625);
  EXPECT_DOUBLE_EQ(report.costs.restart.value, 1.75);
  EXPECT_DOUBLE_EQ(report.costs.detect_kill.value, 0.25);
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
  EXPECT_DOUBLE_EQ(report.costs.restart.value, 1);      // not of the one that was broken off
  EXPECT_DOUBLE_EQ(report.costs.detect_kill.value, 0);  // it hit no step
  EXPECT_DOUBLE_EQ(report.costs.detect_hang.value, 0.5);
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

TEST(RunHistory, ADiskThatWasFullAtTheEndLosesWhatCameAfterTheLastCheckpoint) {
  RunHistory history;
  hear_all(history, {{0, "next is step 1 of 4"}, {1, "step 1 of 4"}});
  history.failed("disk", 0, {1.5});
  hear_all(history, {{2, "step 2 of 4"},
                     {2.5, "checkpoint of step 2 complete: stood still 0.500000 s, durable after 0.500000 s"},
                     {3.5, "step 3 of 4"}});
  EXPECT_FALSE(history.finished());
  history.hear("step 4 of 4", {4.5});
  EXPECT_TRUE(history.finished());
  history.ended(2, {5});
  EXPECT_FALSE(history.finished());
  hear_all(history, {{6, "next is step 3 of 4"}, {7, "step 3 of 4"}, {8, "step 4 of 4"}});
  const RecoveryReport report = history.report();
  EXPECT_DOUBLE_EQ(report.failures[0].lost.value, 0);
  EXPECT_DOUBLE_EQ(report.failures[0].detect.value, 2.5);
  EXPECT_DOUBLE_EQ(report.stalls.value, 0.5);
  EXPECT_DOUBLE_EQ(report.useful.value, 4);
}

TEST(RunHistory, ALineTornInTwoLosesNoWork) {
  RunHistory history;
  hear_all(history,
           {{0, "next is step 1 of 9"}, {1, "step 1 of 9"}, {2, "step 2 of 9"}, {3, "step 3"}, {3, " of 9"}});
  history.failed("kill", 0, {3.5});
  history.ended(3, {3.5});
  hear_all(history, {{4, "next is step 4 of 9"}, {5, "step 4 of 9"}});
  EXPECT_DOUBLE_EQ(history.report().lost.value, 1.5);
}

// One of two replicas continues while a rank is missing, until a checkpoint after its return.
TEST(RunHistory, WhatFewerReplicasTakeLongerIsMissing) {
  RunHistory history;
  history.attempt_begins({0}, 2);
  hear_all(history,
           {{10, "next is step 1 of 6"},
            {11, "step 1 of 6"},
            {11.5, "checkpoint of step 1 complete: stood still 0.500000 s, durable after 0.500000 s"},
            {12.5, "step 2 of 6"}});
  history.failed("kill", 3, {13});
  history.ended(1, {13.25});
  history.waited({14});
  history.attempt_begins({14}, 1);
  EXPECT_LT(history.last_complete(), Seconds{});
  hear_all(history,
           {{15, "next is step 2 of 6"},
            {16.75, "step 2 of 6"},
            {18.5, "step 3 of 6"},
            {19, "checkpoint of step 3 complete: stood still 0.500000 s, durable after 0.500000 s"}});
  EXPECT_DOUBLE_EQ(history.last_complete().value, 19);
  history.failed("return", 0, {19.25});
  history.ended(3, {19.25});
  history.attempt_begins({19.5}, 2);
  hear_all(history,
           {{21, "next is step 4 of 6"}, {22, "step 4 of 6"}, {23, "step 5 of 6"}, {24, "step 6 of 6"}});
  const RecoveryReport report = history.report();
  EXPECT_DOUBLE_EQ(report.total.value, 14);
  EXPECT_DOUBLE_EQ(report.costs.step.value, 1);
  EXPECT_DOUBLE_EQ(report.useful.value, 6);
  EXPECT_DOUBLE_EQ(report.missing.value, 1.5);
  EXPECT_DOUBLE_EQ(report.stalls.value, 1);
  EXPECT_DOUBLE_EQ(report.lost.value, 1.75);
  EXPECT_DOUBLE_EQ(report.detect.value, 0.25);
  EXPECT_DOUBLE_EQ(report.waiting.value, 0.75);
  EXPECT_DOUBLE_EQ(report.restart.value, 2.75);
  EXPECT_EQ(report.costs.reduced, (std::vector<ReducedSteps>{{1, 2, {1.75}}}));
  ASSERT_EQ(report.failures.size(), 2U);
  EXPECT_EQ(report.failures[0].replicas, 1);
  EXPECT_EQ(report.failures[1].replicas, 2);
  EXPECT_DOUBLE_EQ(report.failures[1].restart.value, 1.75);
  EXPECT_EQ(count_failures(report), 1);
  EXPECT_EQ(report.saves, (std::vector<SaveReport>{{1, {1}, {0.5}, {0.5}}, {3, {8.5}, {0.5}, {0.5}}}));
}

TEST(RunHistory, StepsOfAnEarlierRunAreNotOfThisOne) {
  RunHistory history;
  history.attempt_begins({0});
  hear_all(history, {{2, "next is step 5 of 6"}, {3, "step 5 of 6"}, {4, "step 6 of 6"}});
  const RecoveryReport report = history.report();
  EXPECT_EQ(report.steps, 2);
  EXPECT_DOUBLE_EQ(report.costs.step.value, 1);
  EXPECT_DOUBLE_EQ(report.costs.restart.value, 2);  // there was no other start
}

TEST(FailureSequence, IsOfItsSeedAndAsOftenAsAsked) {
  const FailureSpec spec = parse_failure_spec("mtbf=2s,kinds=kill,hang,seed=9");
  FailureSequence one(spec, 4);
  FailureSequence other(spec, 4);
  int hangs = 0;
  int of_last_rank = 0;
  Seconds before;
  constexpr int kMany = 4000;
  for (int i = 0; i < kMany; ++i, one.advance(), other.advance()) {
    EXPECT_EQ(one.next().at, other.next().at);
    EXPECT_GE(one.next().at, before);
    before = one.next().at;
    hangs += one.next().kind == Injected::hang ? 1 : 0;
    of_last_rank += one.next().rank == 3 ? 1 : 0;
  }
  EXPECT_NEAR(before / Seconds{2.0 * kMany}, 1, 0.05);
  EXPECT_NEAR(hangs, kMany / 2, kMany / 20);
  EXPECT_NEAR(of_last_rank, kMany / 4, kMany / 20);
}

// 40 steps of 0.5 s with a save of 0.5 s after every fourth. Seed 1's failures come at times that the
// prediction knows.
TEST(GoodputPrediction, KnowsTheFailuresOfTheSeed) {
  const RecoveryCosts costs{{0.5}, {0.5}, {0.75}, {1.5}, {0.5}, {}};
  FailureSpec spec = parse_failure_spec("mtbf=10s,most=1");
  training::CheckpointOptions every4{.folder = "x", .interval = 4};
  const Seconds at = FailureSequence(spec, 2).next().at;
  ASSERT_LT(at, Seconds{24.5});  // the end without failures: 20 s and nine saves
  const double kept = std::floor(at.value / 2.5);
  const double total = 24.5 + (at.value - 2.5 * kept) + 0.5 + 1.5;
  EXPECT_NEAR(predicted_goodput(spec, 2, {}, every4, 40, costs).of_seed, 20 / total, 1e-12);
  every4.async = true;  // durable 0.25 s after the stall
  const double written = std::floor(std::max(0.0, at.value - 0.25) / 2.5);
  EXPECT_NEAR(predicted_goodput(spec, 2, {}, every4, 40, costs).of_seed,
              20 / (24.5 + (at.value - 2.5 * written) + 2), 1e-12);
  spec.kinds = {Injected::hang};  // noticed after the timeout of 10 s
  EXPECT_NEAR(predicted_goodput(spec, 2, {}, every4, 40, costs).of_seed,
              20 / (24.5 + (at.value - 2.5 * written) + 10 + 1.5), 1e-12);
  spec.kinds = {Injected::disk};
  const PredictedGoodput harmless = predicted_goodput(spec, 2, {}, every4, 40, costs);
  EXPECT_NEAR(harmless.of_seed, 20 / 24.5, 1e-12);
  EXPECT_NEAR(harmless.mean, 20 / 24.5, 1e-12);
}

// One of two replicas makes a step in twice the time, or in the measured time.
TEST(GoodputPrediction, KnowsWithHowManyReplicasARunGoesOn) {
  RecoveryCosts costs{{0.5}, {0.5}, {0.75}, {1.5}, {0.5}, {}};
  FailureSpec spec = parse_failure_spec("mtbf=10s,most=1,replacement=1000s");
  const training::CheckpointOptions every4{.folder = "x", .interval = 4};
  const Seconds at = FailureSequence(spec, 2).next().at;
  ASSERT_LT(at, Seconds{24.5});
  const double kept = std::floor(at.value / 2.5);
  const double left = 40 - 4 * kept;
  const double saves = std::floor((left - 1) / 4);
  const double before = at.value + 0.5 + 1.5 + 0.5 * saves;
  const auto of_seed = [&](const ReplicaSizes& sizes) {
    return predicted_goodput(spec, 2, sizes, every4, 40, costs).of_seed;
  };
  EXPECT_NEAR(of_seed({{2}}), 20 / (before + left * 1), 1e-12);
  costs.reduced = {{1, 9, {0.75}}};
  EXPECT_NEAR(of_seed({{2}}), 20 / (before + left * 0.75), 1e-12);
  EXPECT_NEAR(of_seed({{0}}), 20 / (before + 1000 + left * 0.5), 1e-12);
  EXPECT_NEAR(of_seed({}), 20 / (before + 1000 + left * 0.5), 1e-12);
}

TEST(ReplicaSizes, AreTheLargestThatTheBatchCanBeDealtOutTo) {
  const ReplicaSizes four{{3.9, 2.1, 0}};
  EXPECT_EQ(four.without(0), 4);
  EXPECT_EQ(four.without(1), 2);  // three cannot
  EXPECT_EQ(four.without(3), 1);
  EXPECT_EQ(four.without(9), 0);
  EXPECT_EQ(ReplicaSizes{}.without(1), 0);
}

}  // namespace
}  // namespace plumbline::recovery_test
