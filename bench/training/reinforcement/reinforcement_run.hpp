// Steps of reinforcement learning of one configuration on one rank, and their measurements.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/training/reinforcement/reinforcement_step.hpp"

namespace plumbline::reinforcement {

/// One phase over all ranks.
struct PhaseSummary {
  Seconds time;  // median over the timed steps of the slowest rank's
  Bytes peak;    // largest of all ranks and steps
  Bytes held;    // at its end, likewise
};

struct ReinforcementResult {
  std::array<PhaseSummary, kPhases> phases;
  Seconds step;  // median of the timed steps, the sum of their phases
  /// One number per step, warm-up included: means over responses, ids or updates; the last two of a critic.
  std::vector<double> rewards, divergences, losses, critic_losses, explained_variances;
  double gradient_norm = 0, critic_gradient_norm = 0;  // of the last updates
  double mean_length = 0;                              // of the last step's responses, in tokens
  Bytes refit_sent, refit_copied;                      // in a step, by all ranks
  Bytes host;                                          // most of a rank's models that was on its host
};

/// Called on world rank 0 after each step: steps done, steps in all, mean reward.
using ReinforcementProgress = std::function<void(int done, int all, double reward)>;

/// Runs warmup_steps + steps steps. `rollout`: of rollout_config()'s layout; `control` carries measurements;
/// `lane`: to the host's memory; null: that is where `memory` is. The emulated backend gets no weights, and
/// its memory is never touched. Collective over the world; all ranks get the same result. Throws OutOfMemory,
/// InputError (weights), Error (a loss that is not finite).
ReinforcementResult reinforce(const RunConfig& config, const Schedule& schedule, Operators& operators,
                              Communicator& training, Communicator& rollout, Communicator& control,
                              std::unique_ptr<MemorySource> memory, HostLane* lane,
                              const ReinforcementProgress& progress = {});

}  // namespace plumbline::reinforcement
