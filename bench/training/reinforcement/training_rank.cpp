#include "bench/training/reinforcement/training_rank.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "bench/training/reinforcement/advantages.hpp"
#include "bench/training/reinforcement/scoring.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline::reinforcement {
namespace {

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

RunConfig with_scalar_head(RunConfig config, const ModelConfig& model) {
  config.model = update_config(config, model).model;
  config.files.weights.clear();
  return config;
}

}  // namespace

RunConfig critic_config(const RunConfig& config) {
  return with_scalar_head(config, critic_model(config));
}

RunConfig reward_config(const RunConfig& config) {
  return with_scalar_head(config, *config.reinforcement.reward);
}

RunConfig actor_config(RunConfig config) {
  PolicyLossConfig& loss = config.reinforcement.loss;
  if (config.has_critic() && loss.kl_in_reward) loss.kl_coef = 0;
  return config;
}

TrainingRank::TrainingRank(const RunConfig& config, const Schedule& schedule, Operators& operators,
                           Communicator& messages, Communicator& control, Arena& arena, HostLane* lane)
    : config_(config),
      schedule_(schedule),
      operators_(operators),
      messages_(messages),
      control_(control),
      host_(host_of(config, lane, own_lane_)),
      actor_(actor_config(config_), schedule, operators, messages, arena),
      actor_states_(actor_.resources(), host_.get()) {
  actor_states_.store();
  if (config_.has_critic()) {
    critic_.emplace(critic_config(config_), schedule, operators, messages, arena);
    critic_states_.emplace(critic_->resources(), host_.get());
    critic_states_->store();
  }
  const training::StageMap placement(schedule);
  if (config_.reinforcement.reward)
    reward_.emplace(reward_config(config_), placement, operators, messages, arena, host_.get(), std::nullopt);
  if (config_.reinforcement.loss.kl_coef > 0)
    reference_.emplace(config_, placement, operators, messages, arena, host_.get(),
                       actor_.resources().shared.attention_scratch);
}

void TrainingRank::load(const training::SliceReader& weights) {
  actor_states_.load();
  load_weights(actor_, weights);
  actor_states_.store();
  if (reference_) reference_->load(weights);
}

void TrainingRank::load_critic(const training::SliceReader& weights) {
  critic_states_->load();
  load_weights(*critic_, weights);
  critic_states_->store();
}

/// A phase that only moves states.
template <class Work>
void TrainingRank::move(Phase phase, const PhaseMeter& meter, const Work& work) {
  if (host_) meter.measure(phase, messages_, work);
}

void TrainingRank::begin_refit(const PhaseMeter& meter) {
  move(Phase::offload_actor, meter, [&] { actor_states_.store_optimizer(); });
}

const training::RankResources& TrainingRank::refitted() {
  actor_states_.load_parameters();  // in a first step
  return actor_.resources();
}

void TrainingRank::end_refit(const PhaseMeter& meter) {
  move(Phase::offload_actor, meter, [&] { actor_states_.store_parameters(); });
}

void TrainingRank::train(const PhaseMeter& meter) {
  StepOutcome& outcome = meter.outcome;
  score_responses(meter);
  meter.measure(Phase::advantages, messages_, [&] { set_advantages(outcome); });
  update_models(meter);
}

void TrainingRank::rehearse() {
  const auto zeros = [](std::int64_t count) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(count));
  };
  const std::vector<Response> responses(
      static_cast<std::size_t>(config_.batch.global_batch_size),
      {zeros(config_.prompt_tokens()), zeros(config_.generation.max_new_tokens)});
  if (critic_) {
    critic_states_->load();
    update(*critic_, kCriticNumbers, responses);
    critic_states_->store();
  }
  actor_states_.load();
  update(actor_, kActorNumbers, responses);
}

void TrainingRank::score_responses(const PhaseMeter& meter) {
  std::vector<Response>& responses = meter.outcome.responses;
  const auto add_scores = [&](Phase phase, training::RankResources& model, MovableStates& states,
                              std::vector<float> Response::*scores,
                              ScoredRows rows = ScoredRows::before_ids) {
    meter.measure(phase, messages_, [&] {
      states.load_parameters();
      std::vector<std::vector<float>> found = score(model, responses, control_, rows);
      for (std::size_t i = 0; i < found.size(); ++i) responses[i].*scores = std::move(found[i]);
    });
  };
  if (reward_) {
    add_scores(Phase::reward_scores, reward_->resources, reward_->states, &Response::scores,
               ScoredRows::at_ids);
    reward_->states.free_parameters();
  }
  if (reference_) {
    add_scores(Phase::reference_scores, reference_->resources, reference_->states,
               &Response::reference_log_probabilities);
    reference_->states.free_parameters();
  }
  if (critic_) {
    add_scores(Phase::values, critic_->resources(), *critic_states_, &Response::values);
    critic_states_->free_parameters();
  }
  move(Phase::load_actor, meter, [&] { actor_states_.load_parameters(); });
  add_scores(Phase::actor_scores, actor_.resources(), actor_states_, &Response::log_probabilities);
}

void TrainingRank::update_models(const PhaseMeter& meter) {
  StepOutcome& outcome = meter.outcome;
  if (critic_) {
    actor_states_.free_parameters();
    meter.measure(Phase::critic_updates, messages_, [&] {
      critic_states_->load();
      outcome.critic = update(*critic_, kCriticNumbers, outcome.responses);
      critic_states_->store();
    });
  }
  move(Phase::load_actor, meter, [&] { actor_states_.load(); });
  meter.measure(Phase::updates, messages_,
                [&] { outcome.actor = update(actor_, kActorNumbers, outcome.responses); });
  updates_ += std::ssize(outcome.actor.losses);
}

void TrainingRank::set_advantages(StepOutcome& outcome) const {
  double rewards = 0, divergences = 0;
  std::int64_t ids = 0;
  for (Response& response : outcome.responses) {
    rewards += response.reward =
        reward_ ? response.scores.back() : rule_reward(response.ids, common_vocab(config_));
    for (const double each : divergences_of(response, config_.reinforcement.loss.kl)) divergences += each;
    ids += std::ssize(response.ids);
  }
  outcome.mean_reward = rewards / static_cast<double>(outcome.responses.size());
  outcome.mean_kl = divergences / static_cast<double>(ids);
  critic_ ? set_generalised_advantages(outcome) : set_group_advantages(outcome);
}

void TrainingRank::set_group_advantages(StepOutcome& outcome) const {
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
void TrainingRank::set_generalised_advantages(StepOutcome& outcome) const {
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

Updates TrainingRank::update(training::RankStages& model, const TokenNumbers& numbers,
                             std::span<const Response> responses) {
  const auto batch = static_cast<std::size_t>(config_.batch.global_batch_size);
  const bool computes = config_.machine.backend != Backend::emulated;
  const int replica = messages_.layout().coordinates(messages_.rank()).data;
  Updates made;
  std::int64_t ages = 0;
  for (int epoch = 0; epoch < config_.reinforcement.epochs; ++epoch) {
    for (std::size_t first = 0; first < responses.size(); first += batch) {
      if (computes) {
        const PolicyBatch rows = policy_batch(config_, numbers, responses.subspan(first, batch), replica);
        model.use_policy_tokens(rows.policy.data());
        model.start_step(rows.inputs.data(), rows.targets.data(), 1);
      } else {
        model.start_step(nullptr, nullptr, 1);
      }
      execute(schedule_, model, messages_, messages_.now(),
              config_.parallel.effective_overlap_p2p_comm() ? Receives::ahead : Receives::in_their_turn);
      operators_.synchronize();
      for (const Response& each : responses.subspan(first, batch))
        ages += updates_ + std::ssize(made.losses) - each.drawn_after;
      made.losses.push_back(sum_of_shares(control_, messages_.layout(), model.loss()));
    }
  }
  made.gradient_norm = model.gradient_norm();
  made.staleness = static_cast<double>(ages) / static_cast<double>(batch * made.losses.size());
  return made;
}

}  // namespace plumbline::reinforcement
