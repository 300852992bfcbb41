#include "bench/training/reinforcement/reinforcement_step.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "bench/training/generate/prompts.hpp"
#include "bench/training/reinforcement/advantages.hpp"
#include "bench/training/reinforcement/scoring.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline::reinforcement {
namespace {

/// Forwards alone, whole on every replica.
RunConfig forward_config(RunConfig config) {
  config.parallel.dp.zero_stage = 0;
  config.parallel.dp.overlap_param_gather.reset();
  config.recompute.granularity = Recompute::none;
  config.mixture = MixtureConfig();
  return config;
}

/// Without the KL that is in the rewards.
RunConfig actor_config(RunConfig config) {
  PolicyLossConfig& loss = config.reinforcement.loss;
  if (config.has_critic() && loss.kl_in_reward) loss.kl_coef = 0;
  return config;
}

/// A loss of an update on every rank: last stages have shares, tensor ranks the same ones.
double sum_of_shares(Communicator& control, const Layout& layout, double share) {
  const std::vector<double> shares = training::from_every_rank(control, share);
  double sum = 0;
  for (int rank = 0; rank < layout.world(); ++rank)
    if (layout.coordinates(rank).tensor == 0) sum += shares[static_cast<std::size_t>(rank)];
  return sum;
}

/// Estimates for every id; 0 without a reference.
std::vector<double> divergences_of(const Response& response, KlEstimator estimator) {
  std::vector<double> found(response.ids.size());
  for (std::size_t i = 0; i < response.reference_log_probabilities.size(); ++i)
    found[i] = divergence(estimator, response.log_probabilities[i], response.reference_log_probabilities[i]);
  return found;
}

std::vector<float> rounded(std::span<const double> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Null unless colocated.
std::unique_ptr<training::HostSide> host_of(const RunConfig& config, HostLane* given,
                                            std::unique_ptr<HostLane>& own) {
  if (config.reinforcement.rollout.placement != RolloutPlacement::colocated) return nullptr;
  if (given == nullptr) own = plain_host_lane();
  return std::make_unique<training::HostSide>(given != nullptr ? *given : *own);
}

}  // namespace

RunConfig critic_config(const RunConfig& config) {
  RunConfig critic = config;
  critic.model = update_config(config, critic_model(config)).model;
  critic.files.weights.clear();
  return critic;
}

ReinforcementStep::ReinforcementStep(const RunConfig& config, const Schedule& schedule, Operators& operators,
                                     Communicator& training, Communicator& rollout, Communicator& control,
                                     Arena& arena, HostLane* lane)
    : config_(config),
      rollout_config_(rollout_config(config)),
      reference_config_(forward_config(config)),
      schedule_(schedule),
      operators_(operators),
      training_(training),
      rollout_(rollout),
      control_(control),
      arena_(arena),
      host_(host_of(config, lane, own_lane_)),
      actor_(actor_config(config_), schedule, operators, training, arena),
      actor_states_(actor_.resources(), host_.get()) {
  actor_states_.store();
  if (config_.has_critic()) {
    critic_.emplace(critic_config(config_), schedule, operators, training, arena);
    critic_states_.emplace(critic_->resources(), host_.get());
    critic_states_->store();
  }
  if (config_.reinforcement.loss.kl_coef == 0) return;
  const training::StageMap placement(schedule);
  reference_.emplace(
      training::TrainingContext{reference_config_, training::LayerWidths(reference_config_), operators,
                                training, arena, reference_communication_, Category::workspace, nullptr,
                                nullptr, true},
      placement,
      rank_parameters(reference_config_, placement, training.layout().coordinates(training.rank())),
      actor_.resources().shared.attention_scratch);
  reference_states_.emplace(*reference_, host_.get());
  reference_states_->store_parameters();
}

void ReinforcementStep::load(const training::SliceReader& weights) {
  actor_states_.load();
  load_weights(actor_, weights);
  actor_states_.store();
  if (!reference_) return;
  reference_states_->load_parameters();
  load_weights(*reference_, weights);
  reference_states_->store_parameters();
}

void ReinforcementStep::load_critic(const training::SliceReader& weights) {
  critic_states_->load();
  load_weights(*critic_, weights);
  critic_states_->store();
}

template <class Work>
void ReinforcementStep::measure(Phase phase, StepOutcome& outcome, const Work& work) {
  training_.barrier(Group::world);
  arena_.reset_peak();
  const Seconds start = training_.now();
  work();
  operators_.synchronize();
  PhaseMeasurement& all = outcome.phases[static_cast<std::size_t>(phase)];
  all.time += training_.now() - start;
  all.after = arena_.allocated();
  if (arena_.peak() > all.peak.total()) all.peak = arena_.at_peak();
}

/// A phase that only moves states.
template <class Work>
void ReinforcementStep::move(Phase phase, StepOutcome& outcome, const Work& work) {
  if (host_) measure(phase, outcome, work);
}

StepOutcome ReinforcementStep::run(int index) {
  StepOutcome outcome;
  draw_responses(index, outcome);
  const auto add_scores = [&](Phase phase, training::RankResources& model, MovableStates& states,
                              std::vector<float> Response::*scores) {
    measure(phase, outcome, [&] {
      states.load_parameters();
      std::vector<std::vector<float>> found = score(model, outcome.responses, control_);
      for (std::size_t i = 0; i < found.size(); ++i) outcome.responses[i].*scores = std::move(found[i]);
    });
  };
  if (reference_) {
    add_scores(Phase::reference_scores, *reference_, *reference_states_,
               &Response::reference_log_probabilities);
    reference_states_->free_parameters();
  }
  if (critic_) {
    add_scores(Phase::values, critic_->resources(), *critic_states_, &Response::values);
    critic_states_->free_parameters();
  }
  move(Phase::load_actor, outcome, [&] { actor_states_.load_parameters(); });
  add_scores(Phase::actor_scores, actor_.resources(), actor_states_, &Response::log_probabilities);
  measure(Phase::advantages, outcome, [&] { set_advantages(outcome); });
  update_models(outcome);
  return outcome;
}

void ReinforcementStep::update_models(StepOutcome& outcome) {
  if (critic_) {
    actor_states_.free_parameters();
    measure(Phase::critic_updates, outcome, [&] {
      critic_states_->load();
      outcome.critic = update(*critic_, kCriticNumbers, outcome.responses);
      critic_states_->store();
    });
  }
  move(Phase::load_actor, outcome, [&] { actor_states_.load(); });
  measure(Phase::updates, outcome, [&] { outcome.actor = update(actor_, kActorNumbers, outcome.responses); });
}

/// Refit and rollout: the model that generates lives from one to the other.
void ReinforcementStep::draw_responses(int index, StepOutcome& outcome) {
  const ReinforcementConfig& keys = config_.reinforcement;
  const std::uint64_t seed = config_.measure.seed + static_cast<std::uint64_t>(index);
  const generation::Prompts prompts =
      generation::random_prompts(keys.prompts, config_.prompt_tokens(), common_vocab(config_), seed);
  generation::GenerationRequest request;
  for (const std::vector<std::int32_t>& prompt : prompts)
    request.prompts.insert(request.prompts.end(), static_cast<std::size_t>(keys.group_size), prompt);
  request.max_new_tokens = config_.generation.max_new_tokens;
  request.end_ids = end_ids_;
  request.sampling.temperature = 1;
  request.sampling.seed = seed;
  std::unique_ptr<generation::GenerationModel> model;
  move(Phase::offload_actor, outcome, [&] { actor_states_.store_optimizer(); });
  measure(Phase::refit, outcome, [&] {
    actor_states_.load_parameters();  // in a first step
    model = std::make_unique<generation::GenerationModel>(rollout_config_, operators_, rollout_, arena_);
    outcome.refit = refit(actor_.resources(), model->resources());
  });
  move(Phase::offload_actor, outcome, [&] { actor_states_.store_parameters(); });
  measure(Phase::rollout, outcome, [&] {
    model->make_cache();
    generation::GenerationResult made = continue_prompts(*model, request, control_);
    for (std::size_t i = 0; i < request.prompts.size(); ++i)
      outcome.responses.push_back({std::move(request.prompts[i]), std::move(made.sequences[i].ids)});
    model.reset();
  });
}

void ReinforcementStep::set_advantages(StepOutcome& outcome) const {
  double rewards = 0, divergences = 0;
  std::int64_t ids = 0;
  for (Response& response : outcome.responses) {
    rewards += response.reward = rule_reward(response.ids, common_vocab(config_));
    for (const double each : divergences_of(response, config_.reinforcement.loss.kl)) divergences += each;
    ids += std::ssize(response.ids);
  }
  outcome.mean_reward = rewards / static_cast<double>(outcome.responses.size());
  outcome.mean_kl = divergences / static_cast<double>(ids);
  critic_ ? set_generalised_advantages(outcome) : set_group_advantages(outcome);
}

void ReinforcementStep::set_group_advantages(StepOutcome& outcome) const {
  std::vector<double> rewards;
  for (const Response& response : outcome.responses) rewards.push_back(response.reward);
  const std::vector<double> advantages = group_advantages(rewards, config_.reinforcement.group_size);
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    Response& response = outcome.responses[i];
    response.advantages.assign(response.ids.size(), static_cast<float>(advantages[i]));
  }
}

/// Rewards are the rule's at the last id, less the divergence of every id. Advantages are whitened over all
/// ids of the step; returns are those before plus the values.
void ReinforcementStep::set_generalised_advantages(StepOutcome& outcome) const {
  const PolicyLossConfig& loss = config_.reinforcement.loss;
  std::vector<double> all, values, goals;
  for (const Response& response : outcome.responses) {
    std::vector<double> rewards(response.ids.size());
    if (loss.kl_in_reward) rewards = divergences_of(response, loss.kl);
    for (double& reward : rewards) reward *= -loss.kl_coef;
    rewards.back() += response.reward;
    const std::vector<double> advantages =
        generalised_advantages(rewards, response.values, loss.gamma, loss.gae_lambda);
    all.insert(all.end(), advantages.begin(), advantages.end());
    values.insert(values.end(), response.values.begin(), response.values.end());
  }
  std::transform(all.begin(), all.end(), values.begin(), std::back_inserter(goals), std::plus());
  outcome.explained_variance = explained_variance(goals, values);
  whiten(all);
  std::size_t first = 0;
  for (Response& response : outcome.responses) {
    const std::size_t count = response.ids.size();
    response.advantages = rounded(std::span(all).subspan(first, count));
    response.returns = rounded(std::span(goals).subspan(first, count));
    first += count;
  }
}

Updates ReinforcementStep::update(training::RankStages& model, const TokenNumbers& numbers,
                                  std::span<const Response> responses) {
  const auto batch = static_cast<std::size_t>(config_.batch.global_batch_size);
  const bool computes = config_.machine.backend != Backend::emulated;
  const int replica = training_.layout().coordinates(training_.rank()).data;
  Updates made;
  for (int epoch = 0; epoch < config_.reinforcement.epochs; ++epoch) {
    for (std::size_t first = 0; first < responses.size(); first += batch) {
      if (computes) {
        const PolicyBatch rows = policy_batch(config_, numbers, responses.subspan(first, batch), replica);
        model.use_policy_tokens(rows.policy.data());
        model.start_step(rows.inputs.data(), rows.targets.data(), 1);
      } else {
        model.start_step(nullptr, nullptr, 1);
      }
      execute(schedule_, model, training_, training_.now(),
              config_.parallel.effective_overlap_p2p_comm() ? Receives::ahead : Receives::in_their_turn);
      operators_.synchronize();
      made.losses.push_back(sum_of_shares(control_, training_.layout(), model.loss()));
    }
  }
  made.gradient_norm = model.gradient_norm();
  return made;
}

}  // namespace plumbline::reinforcement
