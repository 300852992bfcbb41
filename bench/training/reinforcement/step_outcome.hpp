// Phases of a step of reinforcement learning, their measurements on one rank, and the step's numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/training/reinforcement/experience.hpp"
#include "bench/training/reinforcement/refit.hpp"

namespace plumbline::reinforcement {

enum class Phase {
  refit,
  offload_actor,
  rollout,
  reward_scores,
  reference_scores,
  values,
  load_actor,
  actor_scores,
  advantages,
  critic_updates,
  updates
};
constexpr int kPhases = 11;
constexpr std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"refit",
                                         "offload actor",
                                         "rollout",
                                         "scores",
                                         "reference log-probabilities",
                                         "values",
                                         "load actor",
                                         "actor log-probabilities",
                                         "advantages",
                                         "critic updates",
                                         "updates"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// One phase on one rank, all its parts together; all 0 if the rank has no such phase in the step.
struct PhaseMeasurement {
  Seconds start;  // from the step's on
  Seconds time;
  MemoryBreakdown peak;   // at the moment of its largest total
  MemoryBreakdown after;  // at its end
};

/// Updates of one model, on all ranks that train.
struct Updates {
  std::vector<double> losses;
  double staleness = 0;      // mean over their responses: updates since the weights that drew them
  double gradient_norm = 0;  // of the last one
};

struct StepOutcome {
  std::array<PhaseMeasurement, kPhases> phases;
  Seconds time;                     // until this rank's last phase ends
  std::vector<Response> responses;  // on all ranks
  RefitTraffic refit;
  // On ranks that train.
  Updates actor, critic;
  double mean_reward = 0;
  double mean_kl = 0;             // over all ids, of the estimator; 0 without a reference
  double explained_variance = 0;  // with a critic: share of the returns' variance in its values
};

/// Measures phases of one step on one rank.
struct PhaseMeter {
  Communicator& clock;  // of all ranks
  Operators& operators;
  Arena& arena;
  StepOutcome& outcome;
  Seconds begin;

  /// `work` on the ranks of a communicator, from when all of them are there.
  template <class Work>
  void measure(Phase phase, Communicator& ranks, const Work& work) const {
    ranks.barrier(Group::world);
    arena.reset_peak();
    const Seconds start = clock.now();
    work();
    operators.synchronize();
    const Seconds end = clock.now();
    PhaseMeasurement& all = outcome.phases[static_cast<std::size_t>(phase)];
    if (all.peak == MemoryBreakdown()) all.start = start - begin;
    all.time += end - start;
    all.after = arena.allocated();
    if (arena.peak() > all.peak.total()) all.peak = arena.at_peak();
    outcome.time = end - begin;
  }
};

}  // namespace plumbline::reinforcement
