#include "bench/training/reinforcement/reinforcement_step.hpp"

#include <utility>

#include "bench/training/generate/prompts.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/config/common_vocabulary.hpp"

namespace plumbline::reinforcement {

ReinforcementStep::ReinforcementStep(const RunConfig& config, const Schedule& schedule, Operators& operators,
                                     const StepCommunicators& messages, const StepCommunicators& control,
                                     Arena& arena, HostLane* lane)
    : config_(config),
      rollout_config_(rollout_config(config)),
      operators_(operators),
      messages_(messages),
      control_(control),
      arena_(arena),
      from_{actor_config(config), training::StageMap(schedule)},
      to_{generation::generation_config(rollout_config_), generation::stage_per_rank(rollout_config_)} {
  if (messages.both_pools) to_.first = config.layout().world();
  if (messages.training)
    training_.emplace(config_, schedule, operators, *messages.training, control.pool(), arena, lane);
  if (messages.rollout)
    rollout_.emplace(rollout_config_, operators, *messages.rollout, control.pool(), arena);
}

PhaseMeter ReinforcementStep::meter(StepOutcome& outcome) {
  messages_.all().barrier(Group::world);
  return {messages_.all(), operators_, arena_, outcome, messages_.all().now()};
}

StepOutcome ReinforcementStep::run(int index) {
  const bool off = config_.reinforcement.rollout.placement == RolloutPlacement::one_step_off;
  StepOutcome before, outcome;
  if (off && ahead_.empty()) {
    ahead_ = draw(index, meter(before));
    share(ahead_);
  }
  const PhaseMeter phases = meter(outcome);
  std::vector<Response> drawn = draw(off ? index + 1 : index, phases);
  if (!off) {
    share(drawn);
    outcome.responses = std::move(drawn);
    if (training_) training_->train(phases);
    return outcome;
  }
  outcome.responses = std::move(ahead_);
  if (training_) training_->train(phases);
  share(drawn);
  ahead_ = std::move(drawn);
  return outcome;
}

generation::GenerationRequest ReinforcementStep::request(int index) const {
  const ReinforcementConfig& keys = config_.reinforcement;
  const std::uint64_t seed = config_.measure.seed + static_cast<std::uint64_t>(index);
  const generation::Prompts prompts =
      generation::random_prompts(keys.prompts, config_.prompt_tokens(), common_vocab(config_), seed);
  generation::GenerationRequest made;
  for (const std::vector<std::int32_t>& prompt : prompts)
    made.prompts.insert(made.prompts.end(), static_cast<std::size_t>(keys.group_size), prompt);
  made.max_new_tokens = config_.generation.max_new_tokens;
  made.end_ids = end_ids_;
  made.sampling.temperature = 1;
  made.sampling.seed = seed;
  return made;
}

/// Refit and rollout. Only ranks that generate get ids.
std::vector<Response> ReinforcementStep::draw(int index, const PhaseMeter& phases) {
  const generation::GenerationRequest asked = request(index);
  std::vector<Response> responses;
  for (const std::vector<std::int32_t>& prompt : asked.prompts) {
    responses.push_back({prompt, {}});
    if (training_) responses.back().drawn_after = training_->updates();
  }
  if (training_) training_->begin_refit(phases);
  phases.measure(Phase::refit, messages_.all(), [&] {
    if (training_) from_.model = &training_->refitted();
    if (rollout_) to_.model = &rollout_->make_model();
    phases.outcome.refit = refit(from_, to_, {messages_.all(), operators_, arena_});
  });
  if (training_) training_->end_refit(phases);
  if (rollout_) rollout_->draw(asked, phases, responses);
  return responses;
}

/// From the first rank that generates to all.
void ReinforcementStep::share(std::vector<Response>& responses) const {
  messages_.all().barrier(Group::world);  // of the emulated machine, whose clock values do not move
  Communicator& control = control_.all();
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> ids;
  for (const Response& each : responses) {
    lengths.push_back(std::ssize(each.ids));
    ids.insert(ids.end(), each.ids.begin(), each.ids.end());
  }
  training::broadcast_values(control, to_.first, lengths);
  std::int64_t all = 0;
  for (const std::int64_t length : lengths) all += length;
  ids.resize(static_cast<std::size_t>(all));
  training::broadcast_values(control, to_.first, ids);
  auto next = ids.begin();
  for (std::size_t i = 0; i < responses.size(); ++i) {
    responses[i].ids.assign(next, next + lengths[i]);
    next += lengths[i];
  }
}

}  // namespace plumbline::reinforcement
