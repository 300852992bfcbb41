// Noisy steps against all pipelines simulated one by one, and slow ranks in traces.
#include "analysis/stragglers/step_noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "analysis/simulate/simulator.hpp"
#include "analysis/stragglers/slow_ranks.hpp"
#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline::step_noise_test {
namespace {

Schedule one_f_one_b(int ranks, int microbatches) {
  ScheduleRequest request;
  request.name = "1f1b";
  request.ranks = ranks;
  request.microbatches = microbatches;
  return make_schedule(request);
}

Costs quiet_costs(int stages) {
  Costs costs;
  costs.stages.resize(static_cast<std::size_t>(stages));
  for (StageCosts& stage : costs.stages) {
    stage.forward = {0.010};
    stage.backward = {0.020};
  }
  return costs;
}

NoiseModel jitter_of(double deviation) {
  NoiseModel noise;
  noise.jitter = deviation;
  return noise;
}

class StepNoise : public testing::Test {
 protected:
  static constexpr int kRanks = 4;
  static constexpr int kMicrobatches = 12;
  RepeatedSchedule step_{one_f_one_b(kRanks, kMicrobatches)};
  NoiseJob job_{&step_, quiet_costs(kRanks), 2, 64, 8};
};

TEST_F(StepNoise, WithoutAnyStepsAreQuiet) {
  const NoisySteps steps = simulate_noise(job_, {}, {10, 1, 0});
  EXPECT_NEAR(steps.quiet.value, (kMicrobatches + kRanks - 1) * 0.030, 1e-9);
  EXPECT_EQ(steps.percentile(1).value, steps.quiet.value);
  EXPECT_EQ(steps.simulated, 1);
}

TEST_F(StepNoise, OneSlowGpuHoldsUpItsPipelineAlone) {
  NoiseModel noise;
  noise.slow_share = 0.004;  // of 512
  noise.slow_factor = 1.5;
  const NoisySteps steps = simulate_noise(job_, noise, {3, 7, 0});
  ASSERT_GT(steps.slow_gpus, 0);
  Costs slow = quiet_costs(kRanks);
  double least = 1e9;
  double most = 0;
  for (StageCosts& stage : slow.stages) {
    const StageCosts kept = stage;
    stage.forward = 1.5 * stage.forward;
    stage.backward = 1.5 * stage.backward;
    const double time = simulate_makespan(step_.once, slow).value;
    least = std::min(least, time);
    most = std::max(most, time);
    stage = kept;
  }
  EXPECT_GE(steps.mean().value, least - 1e-9);
  EXPECT_LE(steps.mean().value, 1.5 * steps.quiet.value);
  EXPECT_EQ(steps.percentile(0).value, steps.percentile(1).value) << "the same GPUs in every step";
  const NoisySteps none = simulate_noise(job_, noise, {3, 7, steps.slow_gpus});
  EXPECT_EQ(none.mean().value, none.quiet.value);
  noise.slow_share = 1;
  const NoisySteps all = simulate_noise(job_, noise, {1, 1, 0});
  EXPECT_NEAR(all.mean().value, 1.5 * (kMicrobatches + kRanks - 1) * 0.030, 1e-9);
}

// Replicas that are not simulated could not have been the last: simulating all of them one by one gives the
// same maximum.
TEST_F(StepNoise, LeavesOutNothingThatCouldBeTheLast) {
  NoiseModel noise;
  noise.jitter = 0.05;
  noise.slow_share = 0.01;
  noise.slow_factor = 1.2;
  noise.hiccup_share = 0.02;
  noise.hiccup = {0.05};
  job_.replicas = 32;
  const NoisySteps steps = simulate_noise(job_, noise, {40, 3, 0});
  EXPECT_LT(steps.simulated, 40 * 32 / 2);
  // A job of one replica leaves nothing out: its steps, in groups of 32, have the same mean of the longest.
  job_.replicas = 1;
  const NoisySteps single = simulate_noise(job_, jitter_of(0.05), {32 * 600, 5, 0});
  std::mt19937 random(1);
  std::vector<double> shuffled = single.steps;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  double mean = 0;
  for (std::size_t i = 0; i < 600; ++i)
    mean += *std::max_element(shuffled.begin() + static_cast<std::ptrdiff_t>(32 * i),
                              shuffled.begin() + static_cast<std::ptrdiff_t>(32 * (i + 1))) /
            600;
  job_.replicas = 32;
  const NoisySteps together = simulate_noise(job_, jitter_of(0.05), {600, 9, 0});
  EXPECT_NEAR(together.mean().value / mean, 1, 0.003);
}

TEST_F(StepNoise, HiccupsMakeAStepAsMuchLongerAtMost) {
  NoiseModel noise;
  noise.hiccup_share = 0.05;
  noise.hiccup = {0.2};
  const NoisySteps steps = simulate_noise(job_, noise, {50, 1, 0});
  EXPECT_GT(steps.mean().value, steps.quiet.value + 0.1);
  EXPECT_LE(steps.percentile(1).value, steps.quiet.value + 4 * 0.2 + 1e-9);
}

// All forwards twice as long, or all backwards: as a pipeline whose stages cost that.
TEST_F(StepNoise, KindsOfActionsVaryByThemselves) {
  job_.replicas = 1;
  job_.ranks_per_stage = 1;
  for (const std::size_t kind : {std::size_t{0}, std::size_t{1}}) {
    NoiseModel noise;
    noise.kind_jitter[kind] = 0.3;
    const NoisySteps steps = simulate_noise(job_, noise, {300, 3, 0});
    for (const NoiseBlame& blame : steps.blame) EXPECT_EQ(blame.what, kind == 0 ? "forward" : "backward");
    // The slowest of four: a third of the step is forwards, two thirds backwards.
    const double longer = steps.mean() / steps.quiet - 1;
    EXPECT_GT(longer, (kind == 0 ? 0.3 : 0.6) * 0.2);
    EXPECT_LT(longer, (kind == 0 ? 0.4 : 0.75) * 0.5);
  }
}

TEST_F(StepNoise, ASlowPortIsAHopAndItsReductions) {
  job_.costs.transfer = {0.004};
  for (StageCosts& stage : job_.costs.stages) stage.reduce_gradients = {0.1};
  job_.ranks_per_stage = 1;
  job_.replicas = 2;
  NoiseModel noise;
  noise.slow_link_share = 1;
  noise.slow_link_factor = 3;
  Costs all = job_.costs;
  all.transfer = {0.012};
  for (StageCosts& stage : all.stages) stage.reduce_gradients = {0.3};
  EXPECT_NEAR(simulate_noise(job_, noise, {1, 1, 0}).mean().value, simulate_makespan(step_.once, all).value,
              1e-9);
  Costs one = job_.costs;
  one.slow_links = {1, 3, 1, 1};
  const double quiet = simulate_makespan(step_.once, job_.costs).value;
  const double slow = simulate_makespan(step_.once, one).value;
  EXPECT_GT(slow, quiet + 2 * 0.008 - 1e-9) << "the first message down and the last one up";
  all.slow_links = {1, 1, 1, 1};
  one.slow_links = {3, 3, 3, 3};
  one.stages = all.stages;
  EXPECT_NEAR(simulate_makespan(step_.once, one).value, simulate_makespan(step_.once, all).value, 1e-9);
  one.slow_links = {3};
  EXPECT_THROW(simulate_makespan(step_.once, one), InputError);
}

// One rank of one replica is slow: it is blamed, with the pipeline's loss by it.
TEST_F(StepNoise, WhoIsToBlameAndForHowMuch) {
  job_.ranks_per_stage = 1;
  job_.gpus_per_node = 1;
  NoiseModel noise;
  noise.slow_share = 1.0 / 256;
  noise.slow_factor = 1.4;
  std::uint64_t seed = 1;
  NoisySteps steps = simulate_noise(job_, noise, {3, seed, 0});
  while (steps.slow_gpus != 1) steps = simulate_noise(job_, noise, {3, ++seed, 0});
  ASSERT_EQ(steps.blame.size(), 2U);
  EXPECT_EQ(steps.blame[0].rank, steps.blame[1].rank);
  EXPECT_EQ(steps.blame[0].what, "backward");
  EXPECT_EQ(steps.blame[1].what, "forward");
  Costs quick = quiet_costs(kRanks);
  StageCosts& stage = quick.stages[static_cast<std::size_t>(steps.blame[0].rank)];
  stage.forward = 1.4 * stage.forward;
  EXPECT_NEAR(steps.blame[0].cost.value, steps.mean().value - simulate_makespan(step_.once, quick).value,
              1e-9);
}

/// A trace in which every pass takes its time × noise, and those of rank `slow` 10 % longer.
Trace noisy_trace(const Trace& quiet, int slow, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> passes(0, 0.03);
  std::lognormal_distribution<double> ranks(0, 0.004);
  Trace trace = quiet;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const double factor = ranks(random) * (static_cast<int>(rank) == slow ? 1.1 : 1);
    for (Event& event : trace.ranks[rank])
      event.end = event.start + factor * passes(random) * (event.end - event.start);
  }
  return trace;
}

TEST(SlowRanks, OneOfEightThatIsTenPercentSlowerIsNamed) {
  const Trace quiet = simulate(one_f_one_b(8, 32), quiet_costs(8));
  int named = 0;
  int wrong = 0;
  for (unsigned trial = 0; trial < 40; ++trial) {
    const int slow = static_cast<int>(trial % 8);
    const std::vector<SlowRank> found = slow_ranks(noisy_trace(quiet, slow, trial), quiet, {});
    named += int{found.size() == 1 && found[0].rank == slow};
    wrong += int{!slow_ranks(noisy_trace(quiet, -1, 1000 + trial), quiet, {}).empty()};
    if (!found.empty()) {
      EXPECT_NEAR(found[0].factor, 1.1, 0.03);
    }
  }
  EXPECT_GE(named, 38);
  EXPECT_EQ(wrong, 0);
}

using RankTimes = std::vector<std::vector<double>>;

/// Computing times of ranks of two stages of four: ten steps of four actions, every one with noise, a drift
/// that all ranks see, and some that take twice as long.
RankTimes noisy_times(int slow, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> passes(0, 0.03);
  std::uniform_real_distribution<double> uniform(0, 1);
  RankTimes times(8);
  for (int action = 0; action < 40; ++action) {
    const double drift = 1 + 0.01 * action;
    for (std::size_t rank = 0; rank < times.size(); ++rank) {
      const double stage = rank < 4 ? 1 : 1.3;
      const double disturbed = uniform(random) < 0.05 ? 2 : 1;
      const double factor = static_cast<int>(rank) == slow ? 1.1 : 1;
      times[rank].push_back(0.01 * stage * drift * disturbed * factor * passes(random));
    }
  }
  return times;
}

/// 36 steps of eight actions, where something takes a rank's processor away for some steps, half of the time
/// in all.
RankTimes times_in_bursts(int slow, unsigned seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> passes(1 / 0.01);
  std::uniform_real_distribution<double> uniform(0, 1);
  RankTimes times(8);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    bool burst = false;
    for (int step = 0; step < 36; ++step) {
      if (uniform(random) < 0.6) burst = !burst;
      const double stage = rank < 4 ? 1 : 1.3;
      const double factor = static_cast<int>(rank) == slow ? 1.1 : 1;
      for (int action = 0; action < 8; ++action)
        times[rank].push_back(0.01 * stage * (burst ? 1.3 : 1) * factor * (1 + passes(random)));
    }
  }
  return times;
}

std::vector<SlowRank> named_in(const RankTimes& times, std::size_t steps) {
  std::vector<ComputingRank> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back({rank, rank / 4, &times[static_cast<std::size_t>(rank)]});
  return slow_ranks(rank_paces(ranks, steps), {});
}

TEST(SlowRanks, RanksOfAStageAreHeldAgainstEachOther) {
  struct Noise {
    RankTimes (*times)(int slow, unsigned seed);
    std::size_t steps;
  };
  for (const auto& [times, steps] : {Noise{noisy_times, 10}, Noise{times_in_bursts, 36}}) {
    int named = 0;
    int wrong = 0;
    for (unsigned trial = 0; trial < 40; ++trial) {
      const int slow = static_cast<int>(trial % 8);
      const std::vector<SlowRank> found = named_in(times(slow, trial), steps);
      named += int{found.size() == 1 && found[0].rank == slow};
      wrong += int{!named_in(times(-1, 1000 + trial), steps).empty()};
    }
    EXPECT_GE(named, 38) << steps << " steps";
    EXPECT_EQ(wrong, 0) << steps << " steps";
  }
}

TEST(SlowRanks, WhatWouldBeNamedFollowsFromTheErrors) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<RankPace> paces = {{0, 1, 0.005}, {1, nan, nan}, {2, 1, 0.01}};
  EXPECT_DOUBLE_EQ(least_named_factor(paces, {}), 1.05);
  paces[0].error = 0.03;
  EXPECT_DOUBLE_EQ(least_named_factor(paces, {}), 1.12);
  paces[0].factor = 1.1201;
  EXPECT_EQ(slow_ranks(paces, {}).size(), 1U);
  paces[0].factor = 1.1199;
  EXPECT_TRUE(slow_ranks(paces, {}).empty());
}

TEST(SlowRanks, TwoRanksCannotSayWhichOneIsSlow) {
  const std::vector<double> quick(10, 1.0);
  const std::vector<double> slow(10, 2.0);
  const std::vector<RankPace> two = rank_paces({{0, 0, &quick}, {1, 0, &slow}}, 5);
  EXPECT_TRUE(std::isnan(two[1].factor));
  EXPECT_TRUE(slow_ranks(two, {}).empty());
  const std::vector<RankPace> three = rank_paces({{5, 0, &quick}, {6, 0, &slow}, {7, 0, &quick}}, 5);
  EXPECT_EQ(three[1].rank, 6);
  EXPECT_DOUBLE_EQ(three[1].factor, 2);
  ASSERT_EQ(slow_ranks(three, {}).size(), 1U);
}

TEST(SlowRanks, TracesOfDifferentStepsAreRefused) {
  const Trace eight = simulate(one_f_one_b(8, 16), quiet_costs(8));
  EXPECT_THROW(slow_ranks(eight, simulate(one_f_one_b(8, 8), quiet_costs(8)), {}), InputError);
  EXPECT_THROW(slow_ranks(eight, simulate(one_f_one_b(4, 16), quiet_costs(4)), {}), InputError);
  const Trace two = simulate(one_f_one_b(2, 4), quiet_costs(2));
  EXPECT_THROW(slow_ranks(two, two, {}), InputError);
}

}  // namespace
}  // namespace plumbline::step_noise_test
