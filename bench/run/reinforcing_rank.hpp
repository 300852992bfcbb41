// One rank of `plumbline run` with a task of reinforcement learning.
#pragma once

#include <functional>

#include "bench/training/reinforcement/reinforcement_run.hpp"

namespace plumbline {

/// Runs the configuration's steps on its backend, under the launcher that started this process; world rank 0
/// calls `write`. May replace this process by the program of backend cuda. Returns the exit code.
int run_as_reinforcing_rank(const RunConfig& config,
                            const std::function<void(const reinforcement::ReinforcementResult&)>& write);

}  // namespace plumbline
