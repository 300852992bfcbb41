#include "core/launch_files/reinforcement/slime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/reinforcement/step_settings.hpp"

namespace plumbline {
namespace {

/// Estimators whose advantages come from rewards alone, as GRPO's do.
constexpr const char* kGroupEstimators[] = {"gspo", "cispo", "reinforce_plus_plus",
                                            "reinforce_plus_plus_baseline"};

bool is_own(const LaunchArgument& argument) {
  return argument_table("slime_keys.txt").find(argument.name) != nullptr;
}

/// Takes the engine's options, which start with its name.
std::vector<LaunchRemark> take_engine(std::vector<LaunchArgument>& arguments) {
  std::vector<LaunchRemark> options;
  std::erase_if(arguments, [&](const LaunchArgument& each) {
    if (!each.name.starts_with("sglang_") || is_own(each)) return false;
    options.push_back({each.name, each.place, "the engine is predicted with its own defaults"});
    return true;
  });
  return options;
}

/// Throws InputError where neither the file nor the command line gives the key.
void need(const LaunchArguments& from, const std::string& key, const std::string& name,
          const char* expected) {
  if (from.has(name) || from.sets(key) || from.file().beside.gives(key)) return;
  throw InputError(fmt::format("{}: found nothing, expected {}; add it, or give its option", name, expected));
}

/// Training, in Megatron-LM's words over slime's defaults (slime/backends/megatron_utils/arguments.py).
LaunchFile take_training(std::vector<LaunchArgument>& arguments, const BesideFile& beside) {
  const auto own = std::stable_partition(arguments.begin(), arguments.end(), is_own);
  std::vector<LaunchArgument> keys(std::make_move_iterator(own), std::make_move_iterator(arguments.end()));
  arguments.erase(own, arguments.end());
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"bf16", "true"},
                                                               {"use_distributed_optimizer", "true"},
                                                               {"overlap_grad_reduce", "false"},
                                                               {"overlap_param_gather", "false"},
                                                               {"seq_length", "4096"}};
  add_defaults(keys, kDefaults, "default of slime");
  LaunchFile file = megatron_keys_launch(std::move(keys), false, beside);
  file.framework = "slime";
  std::erase(file.notes, kNoGpusNote);  // actor_num_gpus_per_node does
  return file;
}

void set_algorithm(LaunchArguments& from) {
  const char* const name = "advantage_estimator";
  set_estimator(from, name, from.text(name, "grpo"), "ppo", kGroupEstimators);
  const bool critic = from.setting("task", "") == "ppo";
  constexpr std::pair<const char*, const char*> kOfCritic[] = {
      {"gamma", "gae_gamma"}, {"lambd", "gae_lambda"}, {"value_clip", "cliprange_value"}};
  for (const auto& [argument, key] : kOfCritic) {
    if (!from.has(argument)) continue;
    if (critic) from.set(key, from.text(argument, ""), argument);
    if (!critic) from.without_effect(argument, "there is no critic");
  }
}

void set_losses(LaunchArguments& from) {
  const char* const in_reward = "kl_coef";
  const char* const in_loss = "use_kl_loss";
  const bool critic = from.setting("task", "") == "ppo";
  const bool loss = from.on(in_loss), reward = from.number(in_reward, 0) != 0;
  if (!loss && !reward) {
    from.set("kl_loss_coef", "0", in_loss);
  } else {
    set_kl_weight(from, loss ? "kl_loss_coef" : in_reward);
    set_kl_type(from, "kl_loss_type", "k1");
    if (critic) from.set("use_kl_in_reward", loss ? "false" : "true", loss ? in_loss : in_reward);
    if (!critic && !loss) from.approximated(in_reward, "the divergence is predicted in the loss");
  }
  const char* const low = "eps_clip";
  const char* const high = from.has("eps_clip_high") ? "eps_clip_high" : low;
  from.set("clip_ratio_low", from.text(low, "0.2"), low);
  from.set("clip_ratio_high", from.text(high, "0.2"), high);
}

void set_updates(LaunchArguments& from) {
  need(from, "max_new_tokens", "rollout_max_response_len", "tokens of the longest response");
  need(from, "num_prompts_per_step", "rollout_batch_size", "prompts of a step");
  from.set_default("num_generations_per_prompt", "1");
  from.set_default("prompt_length", "512");
  const auto size = [&](const char* key) { return std::stoll(from.setting(key, "1")); };
  const char* const steps = "num_steps_per_rollout";
  if (from.has(steps)) {
    const std::int64_t responses = size("num_prompts_per_step") * size("num_generations_per_prompt");
    const std::int64_t updates = from.integer(steps, 1);
    if (updates <= 0 || responses % updates != 0)
      from.refuse(steps, fmt::format("a divisor of {} responses", responses));
    if (!from.sets("global_batch_size"))
      from.set("global_batch_size", fmt::format("{}", responses / updates), steps);
  }
  const std::int64_t longest = size("prompt_length") + size("max_new_tokens");
  const char* const tokens = "max_tokens_per_gpu";
  const bool packs = from.on("use_dynamic_batch_size");
  std::erase_if(from.file().settings, [&](const LaunchSetting& each) {
    return (packs && each.key == "micro_batch_size") || each.key == "seq_length";
  });
  if (packs)
    set_packs(from, tokens,
              std::max<std::int64_t>(longest, from.integer(tokens, 4096) * size("context_parallel_size")));
  else
    from.set("seq_length", fmt::format("{}", longest), "rollout_max_response_len");
  note_lengths(from);
}

void set_pools(LaunchArguments& from, bool async) {
  const char* const gpus = "actor_num_gpus_per_node";
  const std::int64_t all = gpus_of_nodes(from, gpus, "actor_num_nodes");
  from.set("world_size", fmt::format("{}", all), gpus);
  from.set_default("rollout_software", "sglang");
  from.set_default("rollout_pipeline_model_parallel_size", "1");
  from.set_default("rl_framework", "slime");
  const char* const pool = "rollout_num_gpus";
  if (from.on("colocate")) {
    const bool stays = from.has("no_offload_train");
    from.set("rollout_placement", stays ? "resident" : "colocated", stays ? "no_offload_train" : "colocate");
    if (from.has(pool)) from.without_effect(pool, "colocate gives the rollout the actor's GPUs");
    return;
  }
  need(from, "rollout_world_size", pool, "the rollout's GPUs, or colocate");
  from.set("rollout_placement", async ? "one_step_off" : "split", pool);
  from.set("rollout_world_size", fmt::format("{}", from.integer(pool, 0)), pool);
}

}  // namespace

LaunchFile slime_launch(std::vector<LaunchArgument> arguments, bool async, const BesideFile& beside) {
  const std::vector<LaunchRemark> engine = take_engine(arguments);
  LaunchFile file = take_training(arguments, beside);
  file.approximated.insert(file.approximated.end(), engine.begin(), engine.end());
  LaunchArguments from(arguments, argument_table("slime_keys.txt"), file);
  if (from.text("loss_type", "policy_loss") != "policy_loss")
    from.refuse("loss_type", "policy_loss: only slime's reinforcement learning is read");
  from.attempt([&] { set_algorithm(from); });
  from.attempt([&] { set_losses(from); });
  from.attempt([&] { set_pools(from, async); });
  from.attempt([&] { set_updates(from); });
  return file;
}

}  // namespace plumbline
