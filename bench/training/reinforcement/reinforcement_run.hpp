// Steps of reinforcement learning of one configuration on one rank, and their measurements.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/training/reinforcement/reinforcement_step.hpp"

namespace plumbline::reinforcement {

/// One phase over all ranks that have it.
struct PhaseSummary {
  Seconds start;  // from the step's on: median over the timed steps of the first rank's
  Seconds time;   // median over the timed steps of the slowest rank's
  Bytes peak;     // largest of all ranks and steps
  Bytes held;     // at its end, likewise
};

struct ReinforcementResult {
  std::array<PhaseSummary, kPhases> phases;
  Seconds step;  // median of the timed steps
  /// Shares of the step in which the ranks of a pool wait; 0 with one pool.
  double training_idle = 0, rollout_idle = 0;
  /// One number per step, warm-up included: means over responses, ids or updates; the last two of a critic.
  std::vector<double> rewards, divergences, losses, critic_losses, explained_variances;
  std::vector<double> staleness;  // mean age of the weights that drew a step's responses, in updates
  double gradient_norm = 0, critic_gradient_norm = 0;  // of the last updates
  double mean_length = 0;                              // of the last step's responses, in tokens
  Bytes refit_sent, refit_copied;                      // in a step, by all ranks
  Bytes host;                                          // most of a rank's models that was on its host
};

/// Called on world rank 0 after each step: steps done, steps in all, mean reward.
using ReinforcementProgress = std::function<void(int done, int all, double reward)>;

/// Runs warmup_steps + steps steps. `control` carries measurements; `lane`: to the host's memory; null: that
/// is where `memory` is. The emulated backend gets no weights, and its memory is never touched. Collective
/// over all ranks; those that train get the result. Throws OutOfMemory, InputError (weights), Error (a loss
/// that is not finite).
ReinforcementResult reinforce(const RunConfig& config, const Schedule& schedule, Operators& operators,
                              const StepCommunicators& messages, const StepCommunicators& control,
                              std::unique_ptr<MemorySource> memory, HostLane* lane,
                              const ReinforcementProgress& progress = {});

/// Updates of states of their own with responses of token 0, so that the operators have seen their shapes:
/// kernels are loaded and algorithms chosen. `messages` may give stand-ins for other ranks' results.
/// Collective over the ranks that train; errors as above.
void rehearse(const RunConfig& config, const Schedule& schedule, Operators& operators, Communicator& messages,
              Communicator& control, std::unique_ptr<MemorySource> memory, HostLane* lane);

}  // namespace plumbline::reinforcement
