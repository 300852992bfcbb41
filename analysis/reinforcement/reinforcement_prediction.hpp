// Prediction of a step of reinforcement learning: time and memory of every phase.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/reinforcement/phase_memory.hpp"
#include "analysis/reinforcement/refit_time.hpp"
#include "analysis/reinforcement/rollout_prediction.hpp"
#include "analysis/reinforcement/training_side.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

struct StepPhase {
  std::string name;
  PhaseKind kind = PhaseKind::refit;
  Seconds time;
  MemoryParts memory;             // of the fullest rank while it lasts; empty: copies to or from the host
  Bytes needed;                   // all of it, with what a process holds besides, where the profile knows it
  bool on_rollout_ranks = false;  // of their own
  Seconds start;                  // in the step
};

struct ReinforcementPrediction {
  std::vector<StepPhase> phases;  // in order; with one_step_off the rollout is of the next step
  RolloutPrediction rollout;
  Prediction update;  // one of the actor's
  std::int64_t updates = 1;
  Refit refit;
  Seconds step;
  std::size_t fullest = 0;  // phase
  Bytes limit;              // memory of a device; 0: no bound
  bool fits = true;
  Bytes host;                // of a rank that trains, where phases offload
  double training_idle = 0;  // share of the step in which the ranks that train wait
  double rollout_idle = 0;   // likewise of the rollout's own ranks
  /// Mean age of the weights that responses were drawn with, in updates.
  double staleness = 0;
  double tokens = 0;  // of a step: prompts and responses
  double tokens_per_s_per_gpu = 0;
  int gpus = 0;
};

/// Phases: the refit of the rollout's weights, the rollout, forwards for log-probabilities of the actor and,
/// with a kl_loss_coef, of the reference, for scores of a reward model and values of a critic, then the
/// updates of critic and actor. Padded responses have seq_length tokens in these; with packed_sequence their
/// own. Colocated models are copied from and to the host around their phases. `make`: the schedule of a
/// configuration. Throws InputError for what why_phases_invalid() or the profile refuses.
ReinforcementPrediction predict_reinforcement(const RunConfig& config, const HardwareProfile& hardware,
                                              const std::function<RepeatedSchedule(const RunConfig&)>& make);

/// Prediction from sides that were predicted before: `training` of a configuration with the same ranks that
/// train, `rollout` of one with the same rollout.
ReinforcementPrediction join_sides(const RunConfig& config, const HardwareProfile& hardware,
                                   const TrainingSide& training, const RolloutPrediction& rollout);

}  // namespace plumbline
