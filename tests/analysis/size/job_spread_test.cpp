// Intervals of days, cost and goodput against 100,000 random draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "analysis/reliability/draws.hpp"
#include "analysis/reliability/goodput.hpp"
#include "analysis/size/sized_job.hpp"
#include "analysis/stragglers/slow_machines.hpp"

namespace plumbline::job_spread_test {
namespace {

constexpr int kManyDraws = 100'000;

Interval central(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size()))];
  };
  return {at(0.1), at(0.9)};
}

void expect_near(const Interval& found, const Interval& drawn, double relative) {
  EXPECT_NEAR(found.low, drawn.low, relative * drawn.low);
  EXPECT_NEAR(found.high, drawn.high, relative * drawn.high);
}

/// Runs whose steps take from 0.8 to 1.6 times their prediction.
ComparableRuns runs_of(const RunKind& kind) {
  std::vector<KnownRun> known;
  for (int i = 0; i <= 80; ++i) {
    const double ratio = 0.8 + 0.01 * i;
    known.push_back({i % 3 == 0 ? "a/a" : i % 3 == 1 ? "b/b" : "c/c", "step_s", kind, ratio});
  }
  return ComparableRuns(known, kind, "step_s");
}

/// Products and sums of what is drawn: the ends of their intervals are not those of the parts.
TEST(Draws, IntervalsAreThoseOfManyDraws) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto product = [](double a, double b, double c) { return (1 + a) * (2 + b) / (0.5 + c); };
  std::vector<double> values;
  for (int i = 0; i < kManyDraws; ++i)
    values.push_back(product(uniform(random), uniform(random), uniform(random)));
  const Interval drawn = central(values);
  const Interval found =
      drawn_interval([&](const Draw& draw) { return product(draw.step, draw.slow, draw.failures); });
  expect_near(found, drawn, 0.01);
  EXPECT_GT(found.low, 1.2 * product(0.1, 0.1, 0.9)) << "ends of the parts would be wider";
  EXPECT_LT(found.high, 0.9 * product(0.9, 0.9, 0.1));
}

TEST(JobSpreads, AreThoseOfManyDraws) {
  const RunKind kind{"software", "gpu", false, 512, 4096, 1000, 16};
  const ComparableRuns runs = runs_of(kind);
  SizedJob job;
  job.gpus = 512;
  job.days = 30;
  job.effective = 0.9;
  job.hours.compute = 1000;
  job.cost = 2000;
  std::vector<double> effective;
  for (int i = 0; i < 400; ++i) effective.push_back(0.8 + 0.0004 * i);
  const JobSpread spread = spread_of(job, runs, effective);

  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  const SlowMachines slow = slow_machines({1}, job.gpus);
  std::vector<double> times;
  for (int i = 0; i < kManyDraws; ++i) {
    const double ratio = 0.8 + 0.01 * static_cast<double>(static_cast<int>(uniform(random) * 81));
    const double machines = uniform(random) < slow.probability ? SlowMachines::kFactor : 1;
    const double kept = effective[static_cast<std::size_t>(uniform(random) * 400)];
    times.push_back(ratio * machines / slow.expected.value * job.effective / kept);
  }
  const Interval drawn = central(times);
  expect_near(spread.days, {30 * drawn.low, 30 * drawn.high}, 0.01);
  expect_near(spread.gpu_hours, {1000 * drawn.low, 1000 * drawn.high}, 0.01);
  ASSERT_TRUE(spread.cost);
  expect_near(*spread.cost, {2000 * drawn.low, 2000 * drawn.high}, 0.01);
}

TEST(GoodputIntervals, AreThoseOfManyDraws) {
  GoodputRequest request;
  request.fleet = load_fleet("llama3-405b");
  request.gpus = 16384;
  request.step = {10};
  request.tokens_per_step = 1e7;
  request.checkpoint = {{std::int64_t{5'000'000'000'000}}, {1e11}, {1e11}, {}};
  request.recovery = {{60}, {162}, {}, {}};
  request.trials.trials = 500;
  request.prices.gpu_hour = 2;
  request.step_ratio = [](double share) { return 0.9 + 0.4 * share; };
  const GoodputReport report = plan_goodput(request);
  ASSERT_TRUE(report.tokens_per_day_interval);
  ASSERT_TRUE(report.cost_per_million_interval);
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> tokens, costs;
  for (int i = 0; i < kManyDraws; ++i) {
    const double kept = report.simulated.effective[static_cast<std::size_t>(uniform(random) * 500)];
    tokens.push_back(kept * 1e7 * 86400 / 10 / (0.9 + 0.4 * uniform(random)));
    costs.push_back(*report.cost / (tokens.back() * 30) * 1e6);
  }
  expect_near(*report.tokens_per_day_interval, central(tokens), 0.01);
  expect_near(*report.cost_per_million_interval, central(costs), 0.01);
}

}  // namespace
}  // namespace plumbline::job_spread_test
