// Trials against closed forms where these hold, and results that only trials give.
#include "analysis/reliability/goodput_simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/reliability/effective_time.hpp"
#include "analysis/reliability/elastic.hpp"
#include "analysis/reliability/finite_run.hpp"

namespace plumbline::goodput_simulation_test {
namespace {

constexpr double kDay = 86400;

double sum_of(const TimeShares& mean) {
  return mean.effective + mean.recomputed + mean.saving + mean.recovering + mean.waiting + mean.missing;
}

struct Case {
  const char* what;
  JobFailures failures;
  SavePlan saves;
};

std::vector<Case> cases() {
  const JobFailures rare{{30 * 3600}, {{1, {600}, true}}};
  const JobFailures llama{{11135}, {{0.7, {300}, true}, {0.3, {900}, false}}};
  const JobFailures often{{1390}, {{0.7, {280}, true}, {0.3, {150}, false}}};
  const JobFailures hopeless{{600}, {{1, {900}, true}}};
  return {{"rare", rare, {{3600}, {60}}},
          {"Llama-3, blocking", llama, {{1200}, {57}}},
          {"Llama-3, alongside", llama, {{300}, {0.5}, {120}}},
          {"131,072 GPUs", often, {{350}, {50}}},
          {"131,072 GPUs, alongside", often, {{200}, {0.5}, {150}}},
          {"no progress", hopeless, {{300}, {30}}}};
}

TEST(GoodputSimulation, AgreesWithTheClosedForm) {
  TrialPlan plan;
  plan.trials = 400;
  plan.horizon = {60 * kDay};
  for (const Case& each : cases()) {
    const Goodput goodput = simulate_goodput(each.failures, each.saves, plan);
    const double expected = effective_share(each.failures, each.saves);
    EXPECT_NEAR(goodput.mean.effective / expected, 1, 0.01) << each.what;
    EXPECT_NEAR(sum_of(goodput.mean), 1, 1e-9) << each.what;
    EXPECT_LT(goodput.percentile(0.05), goodput.percentile(0.95)) << each.what;
    EXPECT_NEAR(goodput.failures, plan.horizon / each.failures.between, 0.02 * goodput.failures + 0.5)
        << each.what;
  }
}

// Young's, Daly's and the first-order share are the limits of the exact form for short saves and rare
// failures.
TEST(EffectiveTime, FirstOrdersAreWhatTheyShouldBe) {
  const JobFailures failures{{50 * kDay}, {{1, {300}, true}}};
  const CheckpointPlan checkpoint{{1000}, {100}, {100}, std::nullopt};
  const Seconds best = best_interval(failures, checkpoint);
  EXPECT_NEAR(best / young_interval({10}, failures.between), 1, 0.002);
  EXPECT_NEAR(best / daly_interval({10}, failures.between), 1, 5e-4);
  EXPECT_NEAR(best / daly_higher_order_interval({10}, failures.between), 1, 1e-6);
  const SavePlan saves = saves_of(checkpoint, best);
  EXPECT_NEAR(effective_share(failures, saves), first_order_share(failures, saves), 2e-6);
  const double lost = 1 - effective_share({failures.between, {{1, {0}, true}}}, saves);
  EXPECT_NEAR(lost / young_overhead({10}, failures.between), 1, 0.01);
}

TEST(EffectiveTime, TheBestIntervalIsBetterThanItsNeighbours) {
  for (const double between : {600.0, 11135.0, 1e6}) {
    for (const double write : {1.0, 57.0, 400.0}) {
      const JobFailures failures{{between}, {{1, {200}, true}}};
      const CheckpointPlan blocking{{1000}, {1000 / write}, {1000 / write}, std::nullopt};
      const double best = best_interval(failures, blocking).value;
      const auto share = [&](double interval) {
        return effective_share(failures, saves_of(blocking, {interval}));
      };
      EXPECT_GT(share(best), share(0.98 * best)) << between << ' ' << write;
      EXPECT_GT(share(best), share(1.02 * best)) << between << ' ' << write;
      EXPECT_NEAR(daly_higher_order_interval({write}, {between}).value / best, 1,
                  write < between / 8 ? 0.01 : 0.3)
          << between << ' ' << write;
      CheckpointPlan alongside = blocking;
      alongside.stall = Seconds{0.1};
      EXPECT_GE(best_interval(failures, alongside).value, write - 0.1 - 1e-9) << "one save at a time";
    }
  }
  EXPECT_EQ(daly_interval({60}, {100}).value, 100);
  EXPECT_EQ(daly_higher_order_interval({300}, {100}).value, 100);
}

TEST(GoodputSimulation, IsTheSameForASeedWhateverTheThreads) {
  const Case llama = cases()[1];
  TrialPlan plan;
  plan.trials = 50;
  const Goodput one = simulate_goodput(llama.failures, llama.saves, plan);
  plan.threads = 3;
  EXPECT_EQ(simulate_goodput(llama.failures, llama.saves, plan).effective, one.effective);
  plan.seed = 2;
  EXPECT_NE(simulate_goodput(llama.failures, llama.saves, plan).effective, one.effective);
}

TEST(GoodputSimulation, AJobWaitsForNodesThatAreInRepair) {
  const JobFailures failures{{3600}, {{1, {100}, true}}};
  const SavePlan saves{{300}, {5}};
  TrialPlan plan;
  plan.trials = 100;
  plan.spares = {200, {100 * 3600.0}};
  const Goodput enough = simulate_goodput(failures, saves, plan);
  EXPECT_EQ(enough.mean.waiting, 0);
  EXPECT_NEAR(enough.mean.effective, effective_share(failures, saves), 0.01);
  // An hour of work, an hour of repair.
  plan.spares = {0, {3600}};
  const Goodput none = simulate_goodput(failures, saves, plan);
  EXPECT_NEAR(none.mean.waiting, 0.5, 0.03);
  EXPECT_NEAR(sum_of(none.mean), 1, 1e-9);
  plan.spares = {100, {100 * 3600.0}};
  const Goodput some = simulate_goodput(failures, saves, plan);
  EXPECT_GT(some.mean.waiting, 0);
  EXPECT_LT(some.mean.waiting, none.mean.waiting);
  EXPECT_GT(some.mean.effective, none.mean.effective);
}

TEST(EffectiveTime, PoissonQuantiles) {
  EXPECT_EQ(poisson_quantile(1, 0.01), 4);      // P(X > 4) = 0.0037, P(X > 3) = 0.019
  EXPECT_EQ(poisson_quantile(100, 0.01), 124);  // tables
  EXPECT_NEAR(poisson_quantile(5000, 0.01), 5000 + 2.326 * std::sqrt(5000), 2);
}

TEST(Elastic, AgreesWithItsClosedFormWhereGroupsRarelyFailTogether) {
  const JobFailures failures{{1390}, {{1, {300}, true}}};
  const SavePlan saves{{1200}, {1}};
  TrialPlan plan;
  plan.trials = 200;
  for (const int groups : {16, 128}) {
    for (const double away : {300.0, 3600.0}) {
      const ElasticPlan elastic{groups, {30}, {15}, {away}, {10}};
      const Goodput goodput = simulate_elastic(failures, saves, elastic, plan);
      EXPECT_NEAR(goodput.mean.effective / elastic_share(failures, saves, elastic), 1, 0.01)
          << groups << ' ' << away;
      EXPECT_NEAR(sum_of(goodput.mean), 1, 1e-9);
      EXPECT_GT(goodput.mean.missing, 0);
    }
  }
}

TEST(Elastic, FromCheckpointsAgreesWithItsClosedForm) {
  const JobFailures failures{{7200}, {{1, {300}, true}}};
  TrialPlan plan;
  plan.trials = 200;
  for (const SavePlan& saves : {SavePlan{{600}, {20}}, SavePlan{{600}, {1}, {60}}}) {
    ElasticPlan elastic{16, {120}, {90}, {3600}, {10}, true};
    const Goodput goodput = simulate_elastic(failures, saves, elastic, plan);
    const double share = elastic_share(failures, saves, elastic);
    EXPECT_NEAR(goodput.mean.effective / share, 1, 0.01) << saves.durable.value;
    EXPECT_NEAR(sum_of(goodput.mean), 1, 1e-9);
    EXPECT_GT(goodput.mean.recomputed, 0.03);  // half of 620 s in 7200 s
    elastic.from_checkpoint = false;
    EXPECT_GT(elastic_share(failures, saves, elastic), share + 0.03);
  }
}

// A run of some steps and a job of months, each by a rule of its own.
TEST(Elastic, IsWhatARunOfManyStepsSees) {
  constexpr int kGroups = 4;
  constexpr double kBetween = 400;
  FiniteRun run{100000, 10, {1}, {0.5}, {}, {4}, {60}};
  for (int there = 1; there < kGroups; ++there) run.reduced.push_back({1.0 * kGroups / there});
  const JobFailures failures{{kBetween}, {{1, {4}, true}}};
  const ElasticPlan elastic{kGroups, {5}, {4}, {61}, {1}, true};
  for (const double durable : {0.0, 3.0}) {
    run.durable = {durable};
    // Saves come after a number of steps, which take longer while a group is missing.
    EXPECT_NEAR(expected_goodput(run, {kBetween}, {{1, {1}}}).mean,
                elastic_share(failures, {{10}, {0.5}, {durable}}, elastic), 0.01)
        << durable;
  }
}

TEST(Elastic, TheLastGroupTakesTheJobWithIt) {
  const JobFailures failures{{100}, {{1, {300}, true}}};
  const ElasticPlan elastic{2, {1}, {1}, {10000}, {1}};
  TrialPlan plan;
  plan.trials = 20;
  const Goodput goodput = simulate_elastic(failures, {{1200}, {1}}, elastic, plan);
  EXPECT_GT(goodput.mean.waiting, 0.8);
  EXPECT_GT(goodput.mean.recomputed, 0);
  EXPECT_NEAR(sum_of(goodput.mean), 1, 1e-9);
}

}  // namespace
}  // namespace plumbline::goodput_simulation_test
