// A month on many GPUs: expectations for published fleets.
#include "analysis/reliability/goodput.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/reliability/effective_time.hpp"
#include "core/base/error.hpp"

namespace plumbline::goodput_test {
namespace {

using testing::HasSubstr;

/// Llama-3 405B's run: 14 bytes per parameter at 100 GB/s, saves alongside the training.
GoodputRequest llama_run() {
  GoodputRequest request;
  request.fleet = load_fleet("llama3-405b");
  request.gpus = 16384;
  request.step = {5};
  request.tokens_per_step = 16e6;
  request.checkpoint = {{14 * std::int64_t{405'853'388'800}}, {100e9}, {100e9}, Seconds{0.5}};
  request.recovery = {Seconds{60}, Seconds{162}, std::nullopt, std::nullopt};
  request.trials.trials = 200;
  return request;
}

TEST(GoodputOfLlama3, IsAboveNinetyPercentAsPrinted) {
  GoodputRequest request = llama_run();
  const GoodputReport report = plan_goodput(request);
  EXPECT_NEAR(report.between.value / 3600, 3.09, 0.005);
  EXPECT_GT(report.expected, 0.90);
  EXPECT_GT(report.simulated.percentile(0.05), 0.90);
  EXPECT_NEAR(report.simulated.mean.effective / report.expected, 1, 0.01);
  EXPECT_NEAR(report.tokens_per_day, report.simulated.mean.effective * 16e6 / 5 * 86400, 1);
  // Blocking saves need 500 GB/s and more for it.
  request.checkpoint.stall.reset();
  EXPECT_LT(expected_effective(request), 0.90);
  request.checkpoint.write = {1000e9};
  EXPECT_GT(expected_effective(request), 0.90);
}

TEST(Goodput, ChangesAreExpectedSharesOfTheChangedRequest) {
  GoodputRequest request = llama_run();
  request.checkpoint.stall.reset();
  request.interval = Seconds{3600};
  const GoodputReport report = plan_goodput(request);
  EXPECT_EQ(report.intervals.front().name, "chosen");
  EXPECT_EQ(report.intervals.front().effective, report.expected);
  EXPECT_EQ(report.intervals[1].name, "best");
  std::vector<std::string> better;
  for (const GoodputChange& change : report.changes) {
    if (change.effective > report.expected) better.push_back(change.what);
  }
  EXPECT_THAT(better,
              testing::ElementsAre("half as many failures", "detection in half the time",
                                   "restart in half the time", "checkpoints written and read twice as fast",
                                   "saves alongside the training", "the best interval"));
  request.interval.reset();
  EXPECT_EQ(report.changes.back().effective, expected_effective(request));
}

TEST(Goodput, SaysWhereARestartOutlastsTheTimeBetweenFailures) {
  GoodputRequest request = llama_run();
  request.gpus = 131072;
  request.recovery.restart = {900};
  request.trials.trials = 20;
  GoodputReport report = plan_goodput(request);
  EXPECT_TRUE(report.makes_progress);
  EXPECT_NEAR(report.between.value, 3600 * 3.093 / 8, 0.5);
  request.recovery.restart = {1800};
  report = plan_goodput(request);
  EXPECT_FALSE(report.makes_progress);
  EXPECT_LT(report.first_order, 0);
  EXPECT_GT(report.expected, 0);
  request.recovery.elastic_groups = 64;
  report = plan_goodput(request);
  EXPECT_TRUE(report.makes_progress);
  EXPECT_GT(report.expected, 0.9);
}

TEST(Goodput, PricesAreSummed) {
  GoodputRequest request = llama_run();
  request.trials.trials = 5;
  request.trials.spares = {10, {86400}};
  request.prices = {2, 1000, 0.1};
  const GoodputReport report = plan_goodput(request);
  const double hours = (16384 + 80) * 720.0;
  EXPECT_DOUBLE_EQ(report.gpu_hours, hours);
  EXPECT_DOUBLE_EQ(*report.kwh, hours);
  EXPECT_DOUBLE_EQ(*report.cost, 2 * hours + 0.1 * hours);
  EXPECT_NEAR(*report.cost_per_million, *report.cost / (report.tokens_per_day * 30) * 1e6, 1e-9);
  EXPECT_NEAR(*report.nodes_in_repair, 24 / 3.093 * 321 / 419, 0.01);
  EXPECT_GT(report.spares_for_99, 10);
}

TEST(Goodput, WhatCannotBeIsRefusedInOneLine) {
  GoodputRequest request = llama_run();
  request.interval = Seconds{10};
  try {
    plan_goodput(request);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--checkpoint-interval 10: a checkpoint takes 56.82 s"));
  }
  request = llama_run();
  request.trials.trials = 10'000'000;
  EXPECT_THROW(plan_goodput(request), InputError);
}

}  // namespace
}  // namespace plumbline::goodput_test
