// Noisy steps against all pipelines simulated one by one, and slow ranks in traces.
#include "analysis/stragglers/step_noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/simulate/simulator.hpp"
#include "analysis/stragglers/slow_ranks.hpp"
#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
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
  const NoisySteps all = simulate_noise(job_, {0, 1, 1.5}, {1, 1, 0});
  EXPECT_NEAR(all.mean().value, 1.5 * (kMicrobatches + kRanks - 1) * 0.030, 1e-9);
}

// What is not simulated would not have been the last: as many replicas as one after another give the same maximum.
TEST_F(StepNoise, LeavesOutNothingThatCouldBeTheLast) {
  const NoiseModel noise{0.05, 0.01, 1.2, 0.02, {0.05}};
  job_.replicas = 32;
  const NoisySteps steps = simulate_noise(job_, noise, {40, 3, 0});
  EXPECT_LT(steps.simulated, 40 * 32 / 2);
  // A job of one replica leaves nothing out: its steps, in groups of 32, have the same mean of the longest.
  job_.replicas = 1;
  const NoisySteps single = simulate_noise(job_, {0.05, 0, 1, 0, {}}, {32 * 600, 5, 0});
  std::mt19937 random(1);
  std::vector<double> shuffled = single.steps;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  double mean = 0;
  for (std::size_t i = 0; i < 600; ++i)
    mean += *std::max_element(shuffled.begin() + static_cast<std::ptrdiff_t>(32 * i),
                              shuffled.begin() + static_cast<std::ptrdiff_t>(32 * (i + 1))) /
            600;
  job_.replicas = 32;
  const NoisySteps together = simulate_noise(job_, {0.05, 0, 1, 0, {}}, {600, 9, 0});
  EXPECT_NEAR(together.mean().value / mean, 1, 0.003);
}

TEST_F(StepNoise, HiccupsMakeAStepAsMuchLongerAtMost) {
  const NoiseModel noise{0, 0, 1, 0.05, {0.2}};
  const NoisySteps steps = simulate_noise(job_, noise, {50, 1, 0});
  EXPECT_GT(steps.mean().value, steps.quiet.value + 0.1);
  EXPECT_LE(steps.percentile(1).value, steps.quiet.value + 4 * 0.2 + 1e-9);
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

TEST(SlowRanks, TracesOfDifferentStepsAreRefused) {
  const Trace eight = simulate(one_f_one_b(8, 16), quiet_costs(8));
  EXPECT_THROW(slow_ranks(eight, simulate(one_f_one_b(8, 8), quiet_costs(8)), {}), InputError);
  EXPECT_THROW(slow_ranks(eight, simulate(one_f_one_b(4, 16), quiet_costs(4)), {}), InputError);
  const Trace two = simulate(one_f_one_b(2, 4), quiet_costs(2));
  EXPECT_THROW(slow_ranks(two, two, {}), InputError);
}

}  // namespace
}  // namespace plumbline
