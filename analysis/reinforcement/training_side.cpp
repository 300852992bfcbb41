#include "analysis/reinforcement/training_side.hpp"

#include <utility>

#include "analysis/reinforcement/response_lengths.hpp"
#include "analysis/reinforcement/scoring.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {

TrainingSide predict_training_side(const RunConfig& config, std::span<const std::int64_t> lengths,
                                   const HardwareProfile& hardware,
                                   const std::function<RepeatedSchedule(const RunConfig&)>& make) {
  TrainingSide made;
  made.updates = updates(config);
  const auto timed = [&](const char* name, RunConfig update, bool trained) {
    if (config.batch.packed_sequence) update = packed_update(update, lengths, config.prompt_tokens());
    const RepeatedSchedule step = make(update);
    TimedModel model;
    model.update = predict(update, step, hardware);
    const std::int64_t microbatches = update.microbatches() * (made.updates / config.reinforcement.epochs);
    model.scoring = scoring_time(model.update, step.once, microbatches);
    model.model = {name, std::move(update), model.update.memory, trained};
    return model;
  };
  made.actor = timed("actor", update_config(config), true);
  if (config.reinforcement.loss.kl_coef > 0) {
    made.reference = made.actor;
    made.reference->model.name = "reference";
    made.reference->model.trained = false;
  }
  if (const auto& reward = config.reinforcement.reward)
    made.reward = timed("reward model", update_config(config, *reward), false);
  if (config.has_critic()) made.critic = timed("critic", update_config(config, critic_model(config)), true);
  return made;
}

}  // namespace plumbline
