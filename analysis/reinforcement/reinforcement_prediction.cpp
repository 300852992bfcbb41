#include "analysis/reinforcement/reinforcement_prediction.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/reinforcement/memory_moves.hpp"
#include "analysis/reinforcement/own_phase_memory.hpp"
#include "analysis/reinforcement/response_lengths.hpp"
#include "analysis/reinforcement/rl_framework.hpp"
#include "core/base/error.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

class Phases {
 public:
  Phases(const RunConfig& config, const HardwareProfile& hardware, const TrainingSide& training,
         RolloutPrediction rollout)
      : config_(config), hardware_(hardware), training_(training) {
    made_.updates = training.updates;
    made_.update = training.actor.update;
    made_.rollout = std::move(rollout);
    made_.refit = refit_of(config, made_.rollout.at_once, hardware);
  }

  ReinforcementPrediction predict_all() {
    const auto& [actor, reference, reward, critic, updates_made] = training_;
    const std::size_t at_actor = add(actor), none = models_.size();
    const bool switched_off = reference && shares_reference(config_);
    const std::size_t at_reference = reference && !switched_off ? add(*reference) : none;
    const std::size_t at_reward = reward ? add(*reward) : none;
    const std::size_t at_critic = critic ? add(*critic) : none;

    phase("refit", PhaseKind::refit, made_.refit.time, at_actor);
    copy("offload actor", store_time(at_actor));
    phase("rollout", PhaseKind::rollout, made_.rollout.slowest.time, at_actor);
    if (reward) score("scores", at_reward, *reward);
    if (reference && !switched_off) score("reference log-probabilities", at_reference, *reference);
    if (critic) score("values", at_critic, *critic);
    copy("load actor", load_time(at_actor));
    if (switched_off) phase("reference log-probabilities", PhaseKind::scoring, reference->scoring, at_actor);
    phase("actor log-probabilities", PhaseKind::scoring, actor.scoring, at_actor);
    if (critic) update("critic updates", at_critic, *critic);
    update("updates", at_actor, actor);
    for (const TrainingModel& model : models_)
      if (away(model)) made_.host += offloaded(model).total();
    made_.host += engine_weights();
    return std::move(made_);
  }

 private:
  bool offloads() const { return config_.reinforcement.rollout.placement == RolloutPlacement::colocated; }

  /// The model is on the host but for its phases.
  bool away(const TrainingModel& model) const {
    return offloads() || (!model.trained && framework_releases(config_).untrained);
  }

  std::size_t add(const TimedModel& model) {
    models_.push_back(model.model);
    return models_.size() - 1;
  }

  void phase(const char* name, PhaseKind kind, Seconds time, std::size_t model) {
    StepPhase made{name, kind, time, {}, {}, false, {}};
    made.on_rollout_ranks = kind == PhaseKind::rollout && config_.reinforcement.rollout.own_ranks();
    const auto on_training_ranks = is_own_step(config_) ? own_phase_memory : phase_memory;
    made.memory = made.on_rollout_ranks
                      ? rollout_memory(config_, made_.rollout)
                      : on_training_ranks(config_, made_.rollout, models_, kind, models_[model]);
    made_.phases.push_back(std::move(made));
  }
  /// Weights of the engine that are on the host while training works.
  Bytes engine_weights() const {
    return offloads() && costs_.keeps_engine_weights ? rollout_memory(config_, made_.rollout).front().bytes
                                                     : Bytes{};
  }
  Seconds store_time(std::size_t model) const {
    const OffloadedModel moved = offloaded(models_[model]);
    if (costs_.optimizer_rate == 0) return moves_.to_host(moved.total());
    return moves_.to_host(moved.parameters) +
           Seconds{static_cast<double>(moved.optimizer.value) / costs_.optimizer_rate};
  }
  /// Places on the device are allocated again. Frameworks clear gradients in an update, plumbline here.
  Seconds load_time(std::size_t model) const {
    const OffloadedModel moved = offloaded(models_[model]);
    if (!is_own_step(config_)) return store_time(model);
    return store_time(model) + moves_.fresh(moved.total() + moved.gradients) + moves_.clear(moved.gradients);
  }
  void copy(const char* name, Seconds states) {
    if (!offloads()) return;
    const Seconds time = states + moves_.to_host(engine_weights());
    made_.phases.push_back({name, PhaseKind::scoring, time, {}, {}, false, {}});
  }
  /// A colocated model is copied to the device for its forwards. Frameworks copy a critic's states with its
  /// parameters, and all of it back; plumbline's own step frees what has not changed.
  void score(const char* name, std::size_t at, const TimedModel& model) {
    Seconds moved;
    if (away(model.model) && is_own_step(config_)) {
      const Bytes parameters = offloaded(model.model).parameters;
      moved = moves_.to_host(parameters) + moves_.fresh(parameters);
    } else if (away(model.model)) {
      moved = store_time(at) * (model.model.trained ? 2 : 1);
    }
    phase(name, PhaseKind::scoring, model.scoring + moved, at);
  }
  void update(const char* name, std::size_t at, const TimedModel& model) {
    Seconds moved;  // the actor's are phases of their own
    if (offloads() && at > 0) moved = load_time(at) + store_time(at);
    phase(name, PhaseKind::update, model.update.time.step * static_cast<double>(made_.updates) + moved, at);
  }

  const RunConfig& config_;
  const HardwareProfile& hardware_;
  const TrainingSide& training_;
  const MemoryMoves moves_{config_, hardware_};
  const FrameworkCosts costs_ = framework_costs(config_.reinforcement.rollout.framework);
  std::vector<TrainingModel> models_;
  ReinforcementPrediction made_;
};

/// Step time, idle times and staleness by placement.
void assemble(const RunConfig& config, ReinforcementPrediction& made) {
  Seconds training, rollout, refit;
  for (const StepPhase& phase : made.phases)
    (phase.kind == PhaseKind::refit     ? refit
     : phase.kind == PhaseKind::rollout ? rollout
                                        : training) += phase.time;
  const bool ahead = config.reinforcement.rollout.placement == RolloutPlacement::one_step_off;
  Seconds now;
  for (StepPhase& phase : made.phases) {
    phase.start = now;
    if (!ahead || phase.kind != PhaseKind::rollout) now += phase.time;
  }
  made.step = refit + (ahead ? std::max(rollout, training) : rollout + training);
  if (config.reinforcement.rollout.own_ranks()) {
    made.training_idle = 1 - (refit + training) / made.step;
    made.rollout_idle = 1 - (refit + rollout) / made.step;
  }
  // The update j of a step, from 0, works with responses of weights j updates old; one step off, of those
  // before the step's own, too.
  const auto count = static_cast<double>(made.updates);
  made.staleness = (count - 1) / 2 + (ahead ? count : 0);
}

/// Needs of every phase, and the verdict.
void judge(ReinforcementPrediction& made) {
  made.limit = made.update.fit.limit.value > 0 ? made.update.fit.limit : made.rollout.at_once.limit;
  for (std::size_t i = 0; i < made.phases.size(); ++i) {
    StepPhase& phase = made.phases[i];
    phase.needed = sum_of(phase.memory);
    if (!phase.memory.empty() && made.update.fit.by_device && made.update.device)
      phase.needed += made.update.device->fullest().outside_tensors();
    if (phase.needed > made.phases[made.fullest].needed) made.fullest = i;
  }
  made.fits = made.limit.value == 0 || made.phases[made.fullest].needed <= made.limit;
}

}  // namespace

ReinforcementPrediction join_sides(const RunConfig& config, const HardwareProfile& hardware,
                                   const TrainingSide& training, const RolloutPrediction& rollout) {
  ReinforcementPrediction made = Phases(config, hardware, training, rollout).predict_all();
  assemble(config, made);
  judge(made);
  const auto responses = static_cast<double>(config.reinforcement.responses());
  made.tokens = responses * (static_cast<double>(config.prompt_tokens()) + rollout.mean_response);
  made.gpus = config.ranks();
  made.tokens_per_s_per_gpu = made.tokens / made.step.value / made.gpus;
  return made;
}

ReinforcementPrediction predict_reinforcement(const RunConfig& config, const HardwareProfile& hardware,
                                              const std::function<RepeatedSchedule(const RunConfig&)>& make) {
  if (const auto reason = why_phases_invalid(config)) throw InputError(*reason);
  const std::vector<std::int64_t> lengths = response_lengths(config);
  const RolloutPrediction rollout = predict_rollout(config, lengths, hardware);
  return join_sides(config, hardware, predict_training_side(config, lengths, hardware, make), rollout);
}

}  // namespace plumbline
