// A step whose exchanges of rows are hidden, against the same step whose exchanges are awaited.
#pragma once

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/support/predicted_step.hpp"

namespace plumbline::training {

/// Losses, gradients and traffic equal those without `overlap`, bit for bit; memory with it is as predicted,
/// after every action and at its peak, on every rank.
inline void expect_same_step(RunConfig config, bool ExpertParallelConfig::*overlap) {
  config.parallel.ep.*overlap = true;
  ASSERT_EQ(why_invalid(config).value_or(""), "");
  ASSERT_EQ(why_unsupported(config).value_or(""), "");
  const Schedule schedule = schedule_for(config);
  MpiCommunicator communicator(config.layout());
  const StepResult hidden = one_step(config, schedule, communicator);
  expect_routed_memory(config, hidden);
  config.parallel.ep.*overlap = false;
  const StepResult awaited = one_step(config, schedule, communicator);
  EXPECT_TRUE(same(awaited.traffic, hidden.traffic));
  EXPECT_EQ(awaited.loss, hidden.loss);
  EXPECT_EQ(awaited.gradient_norm, hidden.gradient_norm);
  EXPECT_EQ(awaited.gradients, hidden.gradients);
}

}  // namespace plumbline::training
