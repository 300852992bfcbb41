// A step of reinforcement learning (tasks grpo and ppo): rollout, scoring, advantages, training, refit.
// The model of the configuration is the actor; its parallel sizes are those of training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/model_config.hpp"

namespace plumbline {

/// Ranks on which the actor generates: those that train it, which offload one side while the other works
/// (colocated) or keep both (resident), or ranks of its own that wait for training (split) or generate the
/// next step's responses meanwhile (one_step_off).
enum class RolloutPlacement { colocated, resident, split, one_step_off };

/// Program that drives training and rollout in turn; none: its work on the host is not predicted.
enum class RlFramework { none, nemo_rl, slime, verl };

struct RolloutConfig {
  std::string software = "plumbline";  // an inference engine, or plumbline's own generation
  RlFramework framework = RlFramework::none;
  RolloutPlacement placement = RolloutPlacement::colocated;
  int tensor = 0;                // ranks of a replica that generates; 0: those of training
  int pipeline = 0;              // likewise
  int world = 0;                 // ranks of a pool of its own; 0: the ranks that train
  int max_sequences = 0;         // that a replica generates for at once; 0: the engine's default, own: all
  std::int64_t pass_tokens = 0;  // that an engine prefills at once; 0: its default
  /// Share of a device's memory for weights and cache of the engine; 0: its default.
  double memory_utilization = 0;
  /// Tokens of a response: exp(N(mu, sigma²)) with this mean, cut at max_new_tokens. Mean 0: all have
  /// max_new_tokens.
  double length_mean = 0;
  double length_sigma = 0;
  std::string lengths;  // file of such lengths in place of the distribution
  bool own_ranks() const {
    return placement == RolloutPlacement::split || placement == RolloutPlacement::one_step_off;
  }
};

/// Estimators of KL(actor ‖ reference) from log-probabilities of the drawn token, r = log p_ref - log p:
/// k1 = -r, k2 = r²/2, k3 = exp(r) - 1 - r (Schulman 2020, http://joschu.net/blog/kl-approx.html).
enum class KlEstimator { k1, k2, k3 };
/// Mean over all response tokens of an update, or over sequences of the mean over their tokens.
enum class LossAggregation { token_mean, sequence_mean };

/// Loss of a token with ratio ρ = p / p_old and advantage A: -min(ρA, clip(ρ, 1 - low, 1 + high)·A)
/// (arXiv:1707.06347 eq. 7), plus kl_coef·KL (arXiv:2402.03300 eq. 3), minus entropy_coef·entropy.
struct PolicyLossConfig {
  double clip_low = 0.2;
  double clip_high = 0.2;
  double kl_coef = 0.001;  // 0: no reference model
  KlEstimator kl = KlEstimator::k3;
  double entropy_coef = 0;
  LossAggregation aggregation = LossAggregation::token_mean;
  // With a critic (arXiv:1506.02438): KL lowers every id's reward and is no part of the loss
  // (arXiv:2203.02155 §3.5), discount, λ of the advantages, clip range of the values.
  bool kl_in_reward = true;
  double gamma = 1;
  double gae_lambda = 1;
  double value_clip = 0.5;
};

struct ReinforcementConfig {
  std::int64_t prompts = 1;           // of a step
  std::int64_t group_size = 1;        // responses of a prompt
  int epochs = 1;                     // passes over a step's responses; each has updates of global_batch_size
  std::optional<ModelConfig> critic;  // task ppo; nothing: like the actor
  std::optional<ModelConfig> reward;  // scalar head; nothing: a rule on ids
  RolloutConfig rollout;
  PolicyLossConfig loss;
  std::int64_t responses() const { return prompts * group_size; }
};

}  // namespace plumbline
