// The golden llama as an actor on the ranks of a test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/training/reinforcement/reinforcement_run.hpp"
#include "bench/training/reinforcement/reinforcement_step.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/reinforcement/phases.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::reinforcement {

/// Keys of tests/golden/make_grpo.py.
RunConfig grpo_config();

/// A rank's step with everything that it works with.
struct RankOfStep {
  explicit RankOfStep(const RunConfig& of, Bytes budget = {})
      : config(of),
        schedule(schedule_for(config)),
        operators(make_cpu_operators()),
        pool(pool_of_first(config.parallel.world_size)),
        ranks(step_communicators(config,
                                 [&](const Layout& layout, bool alone, auto) {
                                   MpiOptions options;
                                   if (alone) options.world = pool.get();
                                   return std::make_unique<MpiCommunicator>(layout, options);
                                 })),
        arena(budget, host_memory()),
        step(config, schedule, *operators, ranks, ranks, arena) {}

  RunConfig config;
  Schedule schedule;
  std::unique_ptr<Operators> operators;
  MpiComm pool;
  StepCommunicators ranks;
  Arena arena;
  ReinforcementStep step;
};

void expect_near(std::span<const double> found, const std::vector<double>& expected, double tolerance,
                 const std::string& what);

struct Split {
  Layout training, rollout;
  int zero;
};

/// Layouts of this many ranks for training, for generation, and ZeRO stages.
std::vector<Split> splits(int ranks);
/// Layouts of two pools; none of one rank.
std::vector<Split> pools(int ranks);
/// With a pool of its own for the rollout where not all ranks train.
RunConfig split_config(const Split& split);
std::string name_of(const Split& split);

/// Two steps of few ids, for operators or messages that are slow.
struct QuickRun {
  const char* name;
  Split split;
  RolloutPlacement placement;
  RunTask task = RunTask::grpo;
  bool scored = false;  // by a reward model
};

/// Every placement and kind of refit on one, two or four ranks.
std::vector<QuickRun> quick_runs(int ranks);
RunConfig config_of(const QuickRun& run);
/// With the CPU's operators and messages over MPI.
ReinforcementResult run_on_cpu(const RunConfig& config);
/// The same numbers, to 1e-5, of the same ids.
void expect_same(const ReinforcementResult& found, const ReinforcementResult& expected);

}  // namespace plumbline::reinforcement
