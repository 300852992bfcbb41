// A long step is predicted from its period, a large world from ranks that are alike: bitwise the result of
// walking every micro-batch and rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/what_would_fit.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline::long_steps_test {
namespace {

using testing::HasSubstr;

template <class Numbers>
auto one_of(std::mt19937& random, const Numbers& numbers) {
  return numbers[std::uniform_int_distribution<std::size_t>(0, std::size(numbers) - 1)(random)];
}

RunConfig long_config(std::mt19937& random) {
  RunConfig config;
  config.model = *find_preset(one_of(random, std::vector<const char*>{"gpt2-124m", "llama-3.1-8b"}));
  config.machine.hardware = "h100-sxm-80gb";
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : known_schedules()) {
    if (traits.repeats) names.emplace_back(traits.name);
  }
  config.parallel.pp.schedule = one_of(random, names);
  const ScheduleTraits traits = schedule_traits(config.parallel.pp.schedule);
  config.parallel.pipeline = one_of(random, std::vector<int>{2, 4, 6});
  config.parallel.pp.virtual_chunks = traits.any_chunks() || traits.v_shaped() ? 2 : 1;
  config.parallel.tensor = one_of(random, std::vector<int>{1, 2});
  const int data = one_of(random, std::vector<int>{1, 2, 4});
  config.parallel.world_size = config.parallel.pipeline * config.parallel.tensor * data;
  config.parallel.dp.zero_stage = one_of(random, std::vector<int>{0, 1, 2, 3});
  config.recompute.granularity =
      one_of(random, std::vector<Recompute>{Recompute::none, Recompute::selective, Recompute::full});
  const int groups = std::uniform_int_distribution<int>(8, 40)(random);
  config.batch.global_batch_size = std::int64_t{1} * groups * config.parallel.pipeline * data;
  config.batch.seq_length = 1024;
  config.numerics.precision = DType::bf16;
  return config;
}

void expect_same(const Prediction& a, const Prediction& b) {
  for (const auto& figure : kTimeFigures) EXPECT_EQ(figure.of(a.time), figure.of(b.time)) << figure.key;
  for (const auto& figure : kThroughputFigures)
    EXPECT_EQ(figure.of(a.throughput), figure.of(b.throughput)) << figure.key;
  EXPECT_EQ(a.fit.fits, b.fit.fits);
  EXPECT_EQ(a.memory.peak, b.memory.peak);
  EXPECT_EQ(a.memory.peak_rank, b.memory.peak_rank);
  ASSERT_EQ(a.memory.ranks.size(), b.memory.ranks.size());
  for (std::size_t rank = 0; rank < a.memory.ranks.size(); ++rank) {
    EXPECT_EQ(a.memory.ranks[rank].peak, b.memory.ranks[rank].peak) << rank;
    EXPECT_EQ(a.memory.ranks[rank].held, b.memory.ranks[rank].held) << rank;
    EXPECT_EQ(a.memory.ranks[rank].at, b.memory.ranks[rank].at) << rank;
  }
  ASSERT_TRUE(a.device && b.device);
  EXPECT_EQ(a.device->fullest().total(), b.device->fullest().total());
}

TEST(LongSteps, ArePredictedAsIfEveryActionWereLookedAt) {
  std::mt19937 random(11);
  const HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  int repeated = 0;
  for (int i = 0; i < 60; ++i) {
    const RunConfig config = long_config(random);
    if (why_invalid(config)) continue;
    const RepeatedSchedule step = step_for(config);
    repeated += step.repeats() ? 1 : 0;
    SCOPED_TRACE(config.parallel.pp.schedule + " pp " + std::to_string(config.parallel.pipeline) + " zero " +
                 std::to_string(config.parallel.dp.zero_stage) + " micro-batches " +
                 std::to_string(config.microbatches()));
    const Schedule whole = schedule_for(config);
    ASSERT_EQ(with_copies(step, step.copies).actions, whole.actions);
    expect_same(predict(config, step, hardware), predict(config, whole, hardware));
    EXPECT_EQ(predict_traffic(config, step), predict_traffic(config, whole));
  }
  EXPECT_GT(repeated, 20);
}

/// Seconds and a few MB each, if at all.
TEST(LongSteps, MillionsOfMicrobatchesAndRanks) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-70b");
  config.machine.hardware = "h100-sxm-80gb";
  config.numerics.precision = DType::bf16;
  config.batch.seq_length = 4096;
  config.parallel.pp.schedule = "1f1b";
  const HardwareProfile hardware = load_hardware("h100-sxm-80gb");
  config.parallel.world_size = config.parallel.pipeline = 32;
  config.batch.global_batch_size = 1'000'000;
  const Seconds million = predict(config, step_for(config), hardware).time.step;
  config.batch.global_batch_size = 2'000'000;
  EXPECT_NEAR(predict(config, step_for(config), hardware).time.step / million, 2, 1e-3);
  config.parallel.tensor = 8;
  config.parallel.sequence_parallel = true;
  config.parallel.world_size = 1 << 20;
  config.batch.global_batch_size = 1 << 20;
  const RepeatedSchedule step = step_for(config);
  const Prediction prediction = predict(config, step, hardware);
  EXPECT_EQ(prediction.memory.ranks.size(), 32U);
  EXPECT_EQ(prediction.memory.ranks_alike, (1 << 20) / 32);
  const PredictionReport report = report_of(prediction, config, step);
  ASSERT_EQ(report.memory.ranks.size(), 32U);
  EXPECT_EQ(report.memory.ranks[1].rank, (1 << 20) / 32);
  EXPECT_EQ(report.memory.ranks[1].ranks_alike, (1 << 20) / 32);
  const RankMemoryReport* last = report.memory.row_of((1 << 20) - 1);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->pipeline_rank, 31);
  EXPECT_EQ(report.memory.row_of(1 << 20), nullptr);
  config.machine.memory_budget = kGiB;
  EXPECT_THAT(what_would_fit(config, hardware, fit_of(config, hardware, prediction.memory, {})),
              HasSubstr("does not fit"));
}

TEST(LongSteps, SmallWorldsListEveryRank) {
  RunConfig config;
  config.model = *find_preset("gpt2-124m");
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.pipeline = 2;
  config.parallel.world_size = 8;
  config.batch.global_batch_size = 16;
  const RepeatedSchedule step = step_for(config);
  const PredictionReport report =
      report_of(predict(config, step, load_hardware("h100-sxm-80gb")), config, step);
  ASSERT_EQ(report.memory.ranks.size(), 8U);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(report.memory.ranks[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(report.memory.ranks[static_cast<std::size_t>(rank)].ranks_alike, 1);
    EXPECT_EQ(report.memory.row_of(rank)->pipeline_rank, rank / 4);
  }
}

TEST(LongSteps, WhatCannotBeShortenedIsRefusedBeforeItIsMade) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-70b");
  config.parallel.world_size = config.parallel.pipeline = 32;
  config.parallel.pp.schedule = "gpipe";
  config.batch.global_batch_size = 1'000'000;
  try {
    step_for(config);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("about 192000000 actions, expected at most 16777216"));
  }
}

}  // namespace
}  // namespace plumbline::long_steps_test
