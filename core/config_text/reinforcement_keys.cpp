#include "core/config_text/topic_keys.hpp"

#include <limits>

#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {
namespace {

constexpr KeyNames<4> kPlacements = {"colocated", "resident", "split", "one_step_off"};
constexpr KeyNames<4> kFrameworks = {"none", "nemo-rl", "slime", "verl"};
constexpr KeyNames<3> kEstimators = {"k1", "k2", "k3"};
constexpr KeyNames<2> kAggregations = {"token_mean", "sequence_mean"};
constexpr std::int64_t kMostPassTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMostResponses = std::numeric_limits<std::int32_t>::max();

/// A model besides the actor.
ConfigKey model_key(const std::string& name, std::optional<ModelConfig> ReinforcementConfig::*field) {
  return {name, "", std::string(kModelExpected) + ", or none",
          [=](ConfigDraft& draft, const ConfigText& value) {
            auto& model = draft.config.reinforcement.*field;
            model.reset();
            if (value.text != "none") model = model_value(value, name);
          },
          [=](const RunConfig& config) {
            const auto& model = config.reinforcement.*field;
            if (!model) return std::string("none");
            return model->name == "inline" ? to_config_json(*model) : model->name;
          }};
}

}  // namespace

std::vector<ConfigKey> reinforcement_keys() {
  using Run = RunConfig;
  using R = ReinforcementConfig;
  const auto rollout = [](auto member) { return at(&Run::reinforcement, &R::rollout, member); };
  const auto loss = [](auto member) { return at(&Run::reinforcement, &R::loss, member); };
  return {
      integer_key("num_prompts_per_step", "", at(&Run::reinforcement, &R::prompts), 1, kMostResponses),
      integer_key("num_generations_per_prompt", "", at(&Run::reinforcement, &R::group_size), 1,
                  kMostResponses),
      integer_key("ppo_epochs", "", at(&Run::reinforcement, &R::epochs), 1, 1000),
      model_key("critic", &R::critic),
      model_key("reward_model", &R::reward),
      text_key("rollout_software", rollout(&RolloutConfig::software), PathOr::name,
               "plumbline, or an inference engine such as vllm"),
      choice_key("rl_framework", rollout(&RolloutConfig::framework), kFrameworks),
      choice_key("rollout_placement", rollout(&RolloutConfig::placement), kPlacements),
      integer_key("rollout_tensor_model_parallel_size", "", rollout(&RolloutConfig::tensor), 0, kMostRanks),
      integer_key("rollout_pipeline_model_parallel_size", "", rollout(&RolloutConfig::pipeline), 0,
                  kMostRanks),
      integer_key("rollout_world_size", "", rollout(&RolloutConfig::world), 0, kMostRanks),
      integer_key("max_num_seqs", "", rollout(&RolloutConfig::max_sequences), 0, kMostResponses),
      integer_key("max_num_batched_tokens", "", rollout(&RolloutConfig::pass_tokens), 0, kMostPassTokens),
      number_key("gpu_memory_utilization", rollout(&RolloutConfig::memory_utilization), 0, 1),
      number_key("response_length_mean", rollout(&RolloutConfig::length_mean), 0, 1e9),
      number_key("response_length_sigma", rollout(&RolloutConfig::length_sigma), 0, 5),
      text_key("response_lengths", rollout(&RolloutConfig::lengths), PathOr::path, "the path of a text file"),
      number_key("kl_loss_coef", loss(&PolicyLossConfig::kl_coef), 0, 1e6),
      choice_key("kl_loss_type", loss(&PolicyLossConfig::kl), kEstimators),
      number_key("clip_ratio_low", loss(&PolicyLossConfig::clip_low), 0, 1),
      number_key("clip_ratio_high", loss(&PolicyLossConfig::clip_high), 0, 1e6),
      number_key("entropy_coeff", loss(&PolicyLossConfig::entropy_coef), 0, 1e6),
      choice_key("loss_agg_mode", loss(&PolicyLossConfig::aggregation), kAggregations),
      boolean_key("use_kl_in_reward", loss(&PolicyLossConfig::kl_in_reward)),
      number_key("gae_gamma", loss(&PolicyLossConfig::gamma), 0, 1),
      number_key("gae_lambda", loss(&PolicyLossConfig::gae_lambda), 0, 1),
      number_key("cliprange_value", loss(&PolicyLossConfig::value_clip), 0, 1e6),
  };
}

}  // namespace plumbline
