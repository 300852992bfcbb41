#include "core/launch_files/reinforcement/verl_ppo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"
#include "core/launch_files/reinforcement/step_settings.hpp"
#include "core/launch_files/reinforcement/verl_training.hpp"

namespace plumbline {
namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRollout = "actor_rollout_ref.rollout.";
constexpr const char* kEstimator = "algorithm.adv_estimator";

/// Estimators whose advantages come from rewards alone, as GRPO's do (verl/trainer/ppo/core_algos.py).
constexpr const char* kNoCritic[] = {"rloo",
                                     "rloo_vectorized",
                                     "grpo_passk",
                                     "grpo_vectorized",
                                     "gpg",
                                     "opo",
                                     "reinforce_plus_plus",
                                     "reinforce_plus_plus_baseline",
                                     "optimal_token_baseline",
                                     "tir_optimal_token_baseline"};

/// Value behind the last of a name's arguments, before they are sorted.
std::string given(const std::vector<LaunchArgument>& arguments, std::string_view name) {
  std::string value;
  for (const LaunchArgument& each : arguments)
    if (each.name == name && each.values.size() == 1 && each.known) value = each.values.front();
  if (value.size() > 1 && value.front() == '"' && value.back() == '"')
    value = value.substr(1, value.size() - 2);
  return value;
}
bool says_yes(const std::string& value) {
  return value == "True" || value == "true";
}

/// Drops what a file writes out although it says nothing: null, and classes that Hydra makes.
void drop_empty(std::vector<LaunchArgument>& arguments) {
  std::erase_if(arguments, [](const LaunchArgument& each) {
    const std::string value = each.values.size() == 1 ? each.values.front() : "";
    return each.name.ends_with("._target_") || value == "null" || value == "None" || value == "~";
  });
}

/// Drops arguments of models that the step does not have.
void drop_absent(std::vector<LaunchArgument>& arguments, LaunchFile& file) {
  const std::string estimator = given(arguments, kEstimator);
  const bool critic = estimator.empty() || estimator == "gae";
  const bool reference = says_yes(given(arguments, kActor + "use_kl_loss")) ||
                         says_yes(given(arguments, "algorithm.use_kl_in_reward"));
  const bool reward = says_yes(given(arguments, "reward_model.enable"));
  const struct {
    bool there;
    std::string_view prefix;
    const char* reason;
  } kModels[] = {{critic, "critic.", "there is no critic"},
                 {reference, "actor_rollout_ref.ref.", "there is no reference"},
                 {reward, "reward_model.", "there is no reward model"}};
  std::erase_if(arguments, [&](const LaunchArgument& each) {
    for (const auto& model : kModels) {
      if (model.there || !each.name.starts_with(model.prefix)) continue;
      const bool told = argument_table("verl_ppo_keys.txt").find(each.name) != nullptr;
      if (told) file.without_effect.push_back({each.name, each.place, model.reason});
      return told;
    }
    return false;
  });
}

void set_task(LaunchArguments& from) {
  const std::string estimator = from.text(kEstimator, "gae");
  set_estimator(from, kEstimator, estimator, "gae", kNoCritic);
  if (estimator == "gae") {
    if (from.has("algorithm.gamma"))
      from.set("gae_gamma", from.text("algorithm.gamma", ""), "algorithm.gamma");
    if (from.has("algorithm.lam")) from.set("gae_lambda", from.text("algorithm.lam", ""), "algorithm.lam");
    const char* const range = "critic.cliprange_value";
    if (from.has(range)) from.set("cliprange_value", from.text(range, ""), range);
  }
}

/// The divergence from the reference, which is there where the loss or the reward has it.
void set_divergence(LaunchArguments& from) {
  const bool critic = from.setting("task", "") == "ppo";
  const std::string in_loss = kActor + "use_kl_loss";
  const char* const in_reward = "algorithm.use_kl_in_reward";
  const bool reward = from.on(in_reward), loss = from.on(in_loss);
  if (!reward && !loss) return from.set("kl_loss_coef", "0", in_loss);
  set_kl_weight(from, loss ? kActor + "kl_loss_coef" : "algorithm.kl_ctrl.kl_coef");
  if (critic) from.set("use_kl_in_reward", loss ? "false" : "true", loss ? in_loss : in_reward);
  if (!critic && reward) from.approximated(in_reward, "the divergence is predicted in the loss");
  if (loss) set_kl_type(from, kActor + "kl_loss_type", "low_var_kl");
}

/// Drops ranges of other losses: CISPO (arXiv:2506.13585, equation 4) bounds weights, often beyond 1.
void drop_ranges(std::vector<LaunchArgument>& arguments, LaunchFile& file) {
  const std::string loss = given(arguments, kActor + "policy_loss.loss_mode");
  if (loss.empty() || loss == "vanilla") return;
  std::erase_if(arguments, [&](const LaunchArgument& each) {
    if (!each.name.starts_with(kActor + "clip_ratio")) return false;
    file.without_effect.push_back({each.name, each.place, "it changes values, not memory or time"});
    return true;
  });
}

void set_policy_loss(LaunchArguments& from) {
  const std::string both = kActor + "clip_ratio";
  for (const char* const end : {"low", "high"}) {
    const std::string key = fmt::format("clip_ratio_{}", end);
    if (from.has(both) && !from.sets(key)) from.set(key, from.text(both, ""), both);
  }
  const std::string mode = kActor + "loss_agg_mode";
  if (const std::string name = from.text(mode, "token-mean"); name != "token-mean") {
    from.set("loss_agg_mode", "sequence_mean", mode);
    if (name != "seq-mean-token-mean") from.approximated(mode, "predicted as the mean of sequences' means");
  }
  if (!from.sets("clip_grad")) from.set_default("clip_grad", "1.0");
}

void set_sizes_of_step(LaunchArguments& from) {
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"num_prompts_per_step", "1024"},
                                                               {"num_generations_per_prompt", "1"},
                                                               {"prompt_length", "512"},
                                                               {"max_new_tokens", "512"},
                                                               {"rollout_tensor_model_parallel_size", "2"},
                                                               {"rollout_pipeline_model_parallel_size", "1"},
                                                               {"gpu_memory_utilization", "0.5"},
                                                               {"max_num_seqs", "256"}};
  for (const auto& [key, value] : kDefaults)
    if (!from.sets(key)) from.set_default(key, value);
  const char* const gpus = "trainer.n_gpus_per_node";
  from.set("world_size", fmt::format("{}", gpus_of_nodes(from, gpus, "trainer.nnodes")), gpus);
}

/// A value of the command line over that of the file.
double told(const LaunchArguments& from, const std::string& key, double otherwise) {
  const auto& keys = from.file().beside.keys;
  const auto found = keys.find(key);
  if (found == keys.end() || found->second.empty()) return otherwise;
  return found->second.find_first_not_of("0123456789.") == std::string::npos ? std::stod(found->second)
                                                                             : otherwise;
}

void set_batch(LaunchArguments& from, bool megatron) {
  const auto size = [&](const char* key) { return std::stoll(from.setting(key, "1")); };
  const std::string mini = kActor + "ppo_mini_batch_size";
  from.set("global_batch_size",
           fmt::format("{}", from.integer(mini, 256) * size("num_generations_per_prompt")), mini);
  const std::string each = kActor + "ppo_micro_batch_size_per_gpu";
  const std::string all = kActor + "ppo_micro_batch_size";
  std::int64_t micro = 1;
  std::string micro_from = each;
  if (from.has(each)) {
    micro = from.integer(each, 1);
  } else if (from.has(all)) {
    micro_from = all;
    micro = std::max<std::int64_t>(1, from.integer(all, 1) / std::stoll(from.setting("world_size", "1")));
  }
  const std::int64_t longest = size("prompt_length") + size("max_new_tokens");
  const double mean = told(from, "response_length_mean", 0);
  const std::string padding = "actor_rollout_ref.model.use_remove_padding";
  const std::string dynamic = kActor + "use_dynamic_bsz";
  const bool packs = megatron || !from.has(padding) || from.on(padding);
  if (from.on(dynamic)) {
    const std::string tokens = kActor + "ppo_max_token_len_per_gpu";
    const std::int64_t sequence = std::stoll(from.setting("context_parallel_size", "1"));
    const std::int64_t most = from.integer(tokens, 16384) * sequence;
    set_packs(from, tokens, std::max(most, longest));
  } else if (packs && (mean > 0 || from.file().beside.gives("response_lengths"))) {
    // A micro-batch without padding: a pack of as many tokens as its sequences have on average.
    const double one = told(from, "prompt_length", static_cast<double>(size("prompt_length"))) +
                       (mean > 0 ? mean : static_cast<double>(size("max_new_tokens")));
    set_packs(from, micro_from,
              std::max(longest, static_cast<std::int64_t>(one * static_cast<double>(micro))));
  } else {
    from.set("micro_batch_size", fmt::format("{}", micro), micro_from);
    from.set("seq_length", fmt::format("{}", longest), "data.max_response_length");
  }
  note_lengths(from);
}

void set_engine(LaunchArguments& from) {
  const std::string name = kRollout + "name";
  const std::string engine = from.text(name, "vllm");
  if (engine != "vllm" && engine != "sglang" && engine != "trtllm")
    from.refuse(name, "vllm, sglang or trtllm");
  from.set("rollout_software", engine == "trtllm" ? "tensorrt-llm" : engine, name);
}

std::string text_of(const LaunchArgument& argument) {
  std::string name = argument.values.size() == 1 ? argument.values.front() : "";
  std::erase(name, '"');
  return name;
}

void set_models(LaunchArguments& from) {
  const char* const actor = "actor_rollout_ref.model.path";
  LaunchArgument path{actor, {"deepseek-ai/deepseek-llm-7b-chat"}, "default of verl"};
  if (const LaunchArgument* const found = from.find(actor)) path = *found;
  path.values = {text_of(path)};
  set_named_model(from.file(), path);
  const char* const critic = "critic.model.path";
  if (const LaunchArgument* const found = from.find(critic)) {
    const std::string name = text_of(*found);
    const ModelConfig* const preset = preset_of_name(name);
    if (name == path.values.front() || (preset != nullptr && preset->name == from.setting("model", ""))) {
      from.without_effect(critic, "the actor's model");
    } else if (preset != nullptr) {
      from.set("critic", preset->name, critic);
    } else {
      from.approximated(critic, "it is no preset: the critic is predicted as the actor");
    }
  }
  const char* const enable = "reward_model.enable";
  const char* const reward = "reward_model.model.path";
  if (!from.on(enable)) return;
  const LaunchArgument* const scorer = from.find(reward);
  const ModelConfig* const preset = scorer == nullptr ? nullptr : preset_of_name(text_of(*scorer));
  const ModelConfig* const acts = find_preset(from.setting("model", ""));
  const std::string missing =
      "the reward model is left out: it is no preset; --reward-model takes its config.json";
  if (preset == nullptr) return from.approximated(scorer == nullptr ? enable : reward, missing);
  if (acts != nullptr && acts->vocab != preset->vocab)
    return from.approximated(reward,
                             "the reward model is left out: it has another vocabulary than the actor");
  from.set("reward_model", preset->name, reward);
}

void set_refused(LaunchArguments& from) {
  const char* const device = "trainer.device";
  if (const std::string name = from.text(device, "cuda"); name != "cuda")
    from.approximated(device, fmt::format("{} is predicted as the hardware that is named", printable(name)));
}

}  // namespace

LaunchFile verl_ppo_launch(const std::vector<LaunchArgument>& all, const BesideFile& beside) {
  std::vector<LaunchArgument> arguments = all;
  drop_empty(arguments);
  const bool megatron = verl_uses_megatron(arguments);
  LaunchFile file;
  file.beside = beside;
  if (megatron) file = take_verl_megatron(arguments, beside);
  file.framework = "verl";
  drop_absent(arguments, file);
  drop_ranges(arguments, file);
  LaunchArguments from(arguments, argument_table("verl_ppo_keys.txt"), file);
  from.attempt([&] { set_models(from); });
  from.attempt([&] { set_task(from); });
  from.attempt([&] { set_divergence(from); });
  from.attempt([&] { set_policy_loss(from); });
  from.attempt([&] { set_sizes_of_step(from); });
  if (!megatron) from.attempt([&] { set_verl_fsdp(from); });
  from.attempt([&] { set_verl_adapters(from, megatron); });
  from.attempt([&] { set_batch(from, megatron); });
  from.attempt([&] { set_engine(from); });
  from.attempt([&] { set_verl_placement(from, megatron); });
  from.attempt([&] { set_refused(from); });
  return file;
}

std::optional<LaunchFile> verl_ppo_file(std::string_view text, const std::string& name,
                                        const BesideFile& beside) {
  if (!has_yaml_key(text, "actor_rollout_ref")) return std::nullopt;
  return verl_ppo_launch(yaml_arguments(std::string(text), name), beside);
}

}  // namespace plumbline
