// Replays by hand, and their mean against the closed form of a run of some steps.
#include "analysis/reliability/finite_run.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "analysis/reliability/effective_time.hpp"
#include "analysis/reliability/trial_random.hpp"

namespace plumbline::finite_run_test {
namespace {

RunFailures listed(std::vector<RunFailure> list) {
  return [list = std::move(list), at = std::size_t{0}]() mutable -> std::optional<RunFailure> {
    return at < list.size() ? std::optional(list[at++]) : std::nullopt;
  };
}

// Ten steps of 1 s, a save of 0.5 s after every third, a restart of 2 s: 11.5 s without a failure.
constexpr FiniteRun kTenSteps{10, 3, {1}, {0.5}, {}, {2}};

struct ReplayCase {
  const char* what;
  Seconds durable;
  std::vector<RunFailure> failures;
  std::uint64_t most;
  double total, stalls, lost, detect, restart;
  int came;
};

TEST(FiniteRun, ReplaysWhatItIsGiven) {
  const ReplayCase cases[] = {
      {"none", {0}, {}, 9, 11.5, 1.5, 0, 0, 0, 0},
      {"behind the last step", {0}, {{{11.5}, {1}}}, 9, 11.5, 1.5, 0, 0, 0, 0},
      {"within the first steps", {0}, {{{2}, {1}}}, 9, 16.5, 1.5, 2, 1, 2, 1},
      {"within a save: it is no checkpoint", {0}, {{{3.25}, {0}}}, 9, 16.75, 1.5, 3.25, 0, 2, 1},
      {"behind it", {0}, {{{4}, {0}}}, 9, 14, 1.5, 0.5, 0, 2, 1},
      {"behind it, but not yet durable", {1}, {{{4}, {0}}}, 9, 17.5, 1.5, 4, 0, 2, 1},
      {"durable just then", {0.5}, {{{4}, {0}}}, 9, 14, 1.5, 0.5, 0, 2, 1},
      {"in the detection: it passes", {0}, {{{4}, {1}}, {{4.5}, {1}}}, 9, 15, 1.5, 0.5, 1, 2, 1},
      {"in the restart: it begins again", {0}, {{{4}, {1}}, {{6}, {1}}}, 9, 17, 1.5, 0.5, 2, 3, 2},
      {"one more than there are to be", {0}, {{{4}, {1}}, {{6}, {1}}}, 1, 15, 1.5, 0.5, 1, 2, 1},
      {"one that passes is none of them",
       {0},
       {{{4}, {1}}, {{4.5}, {1}}, {{6}, {1}}},
       2,
       17,
       1.5,
       0.5,
       2,
       3,
       2},
      {"two in two intervals", {0}, {{{4}, {0}}, {{10}, {0}}}, 9, 16.5, 1.5, 1, 0, 4, 2},
  };
  for (const ReplayCase& each : cases) {
    FiniteRun run = kTenSteps;
    run.durable = each.durable;
    const FiniteRunTimes times = replay(run, listed(each.failures), each.most);
    EXPECT_NEAR(times.total.value, each.total, 1e-12) << each.what;
    EXPECT_NEAR(times.stalls.value, each.stalls, 1e-12) << each.what;
    EXPECT_NEAR(times.lost.value, each.lost, 1e-12) << each.what;
    EXPECT_NEAR(times.detect.value, each.detect, 1e-12) << each.what;
    EXPECT_NEAR(times.restart.value, each.restart, 1e-12) << each.what;
    EXPECT_EQ(times.failures, each.came) << each.what;
    EXPECT_NEAR((times.stalls + times.lost + times.detect + times.restart).value + 10, times.total.value,
                1e-12)
        << each.what;
  }
}

struct ElasticCase {
  const char* what;
  Seconds replacement;
  std::vector<Seconds> reduced;
  Seconds durable;
  std::vector<RunFailure> failures;
  double total, lost, waiting, missing;
  int came, returns;
};

// As above; of two replicas one makes a step in 1.5 s.
TEST(FiniteRun, GoesOnWithTheReplicasThatAreThere) {
  const std::vector<Seconds> one{{1.5}};
  const std::vector<Seconds> none{};
  const ElasticCase cases[] = {
      {"waits", {4}, none, {}, {{{4}, {1}}}, 19, 0.5, 4, 0, 1, 0},
      {"a failure while it waits passes", {4}, none, {}, {{{4}, {1}}, {{7}, {1}}}, 19, 0.5, 4, 0, 1, 0},
      {"two that follow each other", {4}, none, {}, {{{4}, {1}}, {{10}, {0}}}, 24, 0.5, 8, 0, 2, 0},
      // Step 3 is saved at 3.5 s; from 7 s on one replica makes 3, 3 and 1 steps, none saved after 20 s.
      {"one to the end", {99}, one, {}, {{{4}, {1}}}, 7 + 7 * 1.5 + 2 * 0.5, 0.5, 0, 3.5, 1, 0},
      // Replaced at 9 s; the save at 7 + 4.5 + 0.5 is the first one after that: from 14 s on two make 4
      // steps.
      {"comes back at the next save", {4}, one, {}, {{{4}, {1}}}, 14 + 4.5, 0.5, 0, 1.5, 1, 1},
      {"durable only later", {4}, one, {1}, {{{5}, {1}}}, 8 + 5 + 1 + 2 + 4.5, 1.5 + 1, 0, 1.5, 1, 1},
      {"replaced before it has started", {1}, one, {}, {{{4}, {1}}}, 14 + 4.5, 0.5, 0, 1.5, 1, 1},
      {"there is no save any more", {14}, one, {}, {{{4}, {1}}}, 18.5, 0.5, 0, 3.5, 1, 0},
      {"the rank is not there", {99}, one, {}, {{{4}, {1}}, {{9}, {1}, 0.5}}, 18.5, 0.5, 0, 3.5, 1, 0},
      // All are gone at 10 s; one is there at 14 s, the other at 19 s and back behind the save at 21 s.
      {"the last one too", {9}, one, {}, {{{4}, {1}}, {{9}, {1}, 0.4}}, 21 + 2 + 4.5, 2.5, 4, 1.5, 2, 1},
      {"the batch cannot be dealt out", {4}, {{0}}, {}, {{{4}, {1}}}, 19, 0.5, 4, 0, 1, 0},
  };
  for (const ElasticCase& each : cases) {
    FiniteRun run = kTenSteps;
    run.replacement = each.replacement;
    run.reduced = each.reduced;
    run.durable = each.durable;
    const FiniteRunTimes times = replay(run, listed(each.failures));
    EXPECT_NEAR(times.total.value, each.total, 1e-12) << each.what;
    EXPECT_NEAR(times.lost.value, each.lost, 1e-12) << each.what;
    EXPECT_NEAR(times.waiting.value, each.waiting, 1e-12) << each.what;
    EXPECT_NEAR(times.missing.value, each.missing, 1e-12) << each.what;
    EXPECT_EQ(times.failures, each.came) << each.what;
    EXPECT_EQ(times.returns, each.returns) << each.what;
    const Seconds rest =
        times.stalls + times.lost + times.detect + times.restart + times.waiting + times.missing;
    EXPECT_NEAR(rest.value + 10, times.total.value, 1e-12) << each.what;
  }
}

TEST(FiniteRun, WithoutProgressItIsGivenUp) {
  Seconds at;
  const RunFailures always = [&]() -> std::optional<RunFailure> { return RunFailure{at += Seconds{1}, {0}}; };
  EXPECT_TRUE(std::isinf(replay(kTenSteps, always).total.value));
}

/// Mean duration of a run whose saves block (Duda, Information Processing Letters 16, 1983; Daly, Future
/// Generation Computer Systems 22, 2006). A stretch of w without a failure takes (M + E)·(exp(w/M) - 1),
/// where a recovery takes E = d/p + M·(1/p - 1) with the chance p = exp(-r/M) that nothing breaks a restart
/// off.
double expected_total(const FiniteRun& run, double between, double detect) {
  const double uninterrupted = std::exp(-run.restart.value / between);
  const double recovery = (detect + between * (1 - uninterrupted)) / uninterrupted;
  const auto stretch = [&](double work) { return (between + recovery) * std::expm1(work / between); };
  const double step = run.step.value;
  const std::int64_t saves = (run.steps - 1) / run.interval;
  const auto every = static_cast<double>(run.interval);
  const auto last = static_cast<double>(run.steps - saves * run.interval);
  return static_cast<double>(saves) * stretch(every * step + run.stall.value) + stretch(last * step);
}

TEST(FiniteRun, IsOnAverageWhatTheClosedFormSays) {
  struct Case {
    FiniteRun run;
    double between, detect;
  };
  const Case cases[] = {{{200, 10, {0.1}, {0.02}, {}, {1}}, 5, 0.2},
                        {{200, 10, {0.1}, {0.02}, {}, {3}}, 5, 0.2},
                        {{50, 7, {0.5}, {0.5}, {}, {2}}, 20, 1},
                        {{20, 3, {1}, {0.1}, {}, {1}}, 200, 3}};
  for (const Case& each : cases) {
    // The mean of shares differs from the share of means, but agrees for many consecutive runs: one long run.
    FiniteRun once = each.run;
    const double expected = expected_total(once, each.between, each.detect);
    double total = 0;
    constexpr int kRuns = 4000;
    TrialRandom random(3, 1);
    for (int i = 0; i < kRuns; ++i) {
      Seconds at;
      const RunFailures failures = [&]() -> std::optional<RunFailure> {
        return RunFailure{at += Seconds{random.exponential(each.between)}, {each.detect}};
      };
      total += replay(once, failures).total.value / kRuns;
    }
    EXPECT_NEAR(total / expected, 1, 0.02) << each.between << ' ' << each.run.steps;
  }
}

// A long run is the job of the closed forms, where detection is a part of the recovery.
TEST(FiniteRun, OfManyStepsHasTheEffectiveShareOfAJob) {
  const JobFailures failures{{50}, {{1, {4}, true}}};
  FiniteRun run{20000, 10, {1}, {0.5}, {}, {4}};
  const auto share = [&] { return expected_goodput(run, {50}, {{1, {0}}}).mean; };
  EXPECT_NEAR(share(), effective_share(failures, {{10}, {0.5}}), 0.003);
  run.durable = {6};
  EXPECT_NEAR(share(), effective_share(failures, {{10}, {0.5}, {6}}), 0.003);
}

TEST(FiniteRun, KindsThatHaveNoEffectThinOutFailures) {
  const FiniteRun run{200, 10, {0.1}, {0.02}, {}, {1}};
  const double half = expected_goodput(run, {5}, {{0.5, {0.2}}}).mean;
  EXPECT_NEAR(half, expected_goodput(run, {10}, {{1, {0.2}}}).mean, 0.01);
  const FiniteGoodput mixed = expected_goodput(run, {5}, {{0.5, {0.2}}, {0.5, {2}}});
  EXPECT_LT(mixed.mean, expected_goodput(run, {5}, {{1, {0.2}}}).mean);
  EXPECT_LT(mixed.low, mixed.mean);
  EXPECT_GT(mixed.high, mixed.mean);
}

}  // namespace
}  // namespace plumbline::finite_run_test
