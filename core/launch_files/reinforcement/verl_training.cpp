#include "core/launch_files/reinforcement/verl_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/key_names.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/reinforcement/step_settings.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kActorMegatron = "actor_rollout_ref.actor.megatron.";
constexpr std::string_view kSections[] = {"override_transformer_config.", "override_ddp_config.",
                                          "override_mcore_model_config."};

/// Fields of Megatron-Core's TransformerConfig that are no arguments of Megatron-LM.
constexpr std::string_view kKernels[] = {"apply_rope_fusion",
                                         "bias_activation_fusion",
                                         "bias_dropout_fusion",
                                         "deallocate_pipeline_outputs",
                                         "masked_softmax_fusion",
                                         "persist_layer_norm",
                                         "gradient_accumulation_fusion",
                                         "variable_seq_lengths",
                                         "use_remove_padding",
                                         "moe_router_bias_update_rate",
                                         "moe_aux_loss_coeff",
                                         "use_fused_weighted_squared_relu"};

/// Names of a list such as ["q_proj","v_proj"], as one word or several; one alone has no brackets.
std::set<std::string> listed(const LaunchArgument* argument, const char* otherwise) {
  if (argument == nullptr) return {otherwise};
  std::set<std::string> names;
  for (const std::string& value : argument->values) {
    std::string name;
    for (const char c : value + ",") {
      if (std::string_view("[]\"' ,").find(c) == std::string_view::npos) {
        name += c;
      } else if (!name.empty()) {
        names.insert(std::exchange(name, {}));
      }
    }
  }
  return names;
}

/// Keys that the table of verl has a row for.
bool is_of_verl(const std::string& name) {
  return argument_table("verl_ppo_keys.txt").rows().contains(name);
}

}  // namespace

bool verl_uses_megatron(const std::vector<LaunchArgument>& arguments) {
  const auto says = [](const LaunchArgument& each) {
    const std::string value = each.values.size() == 1 ? each.values.front() : "";
    if (each.name == "config_name" || each.name == "defaults")
      return std::any_of(each.values.begin(), each.values.end(),
                         [](const std::string& name) { return name.find("megatron") != std::string::npos; });
    if (each.name == "model_engine") return value == "megatron";
    return each.name == "actor_rollout_ref.actor.strategy" && value == "megatron";
  };
  return std::any_of(arguments.begin(), arguments.end(), says);
}

LaunchFile take_verl_megatron(std::vector<LaunchArgument>& arguments, const BesideFile& beside) {
  KeyNames names;
  std::vector<LaunchArgument> keys;
  std::vector<LaunchRemark> own, unknown;
  std::erase_if(arguments, [&](LaunchArgument& each) {
    if (!each.name.starts_with(kActorMegatron) || is_of_verl(each.name)) return false;
    std::string leaf = each.name.substr(kActorMegatron.size());
    for (const std::string_view section : kSections)
      if (leaf.starts_with(section)) leaf.erase(0, section.size());
    if (std::find(std::begin(kKernels), std::end(kKernels), leaf) != std::end(kKernels)) {
      own.push_back({each.name, each.place, "it chooses kernels, which the software's description sets"});
    } else if (!is_megatron_name(leaf)) {
      unknown.push_back({printable(each.name, 100), each.place,
                         ArgumentTable::unknown("Megatron-LM", nearest_megatron_name(leaf))});
    } else {
      names.rename(each, leaf);
      keys.push_back(std::move(each));
    }
    return true;
  });
  // Defaults of verl/trainer/config/engine/megatron.yaml, and of verl/utils/megatron_utils.py for DDP.
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"bf16", "true"},
                                                               {"use_distributed_optimizer", "true"},
                                                               {"overlap_grad_reduce", "false"},
                                                               {"overlap_param_gather", "false"},
                                                               {"sequence_parallel", "true"},
                                                               {"attention_backend", "flash"}};
  const auto find = [&](std::string_view name) {
    return std::find_if(keys.begin(), keys.end(),
                        [&](const LaunchArgument& each) { return each.name == name; });
  };
  add_defaults(keys, kDefaults, "default of verl");
  const auto tensor = find("tensor_model_parallel_size");
  if (tensor == keys.end() || tensor->values == std::vector<std::string>{"1"})
    std::erase_if(keys, [](const LaunchArgument& each) { return each.name == "sequence_parallel"; });
  // Megatron-LM has this flag only beside experts in groups of their own.
  const auto experts = find("expert_model_parallel_size");
  if (experts == keys.end() || experts->values == std::vector<std::string>{"1"})
    std::erase_if(keys, [](const LaunchArgument& each) {
      return each.name == "expert_tensor_parallel_size" && each.values == std::vector<std::string>{"1"};
    });
  LaunchFile file = megatron_keys_launch(std::move(keys), false, names.as_read(beside));
  names.restore(file, beside);
  std::erase_if(file.settings, [](const LaunchSetting& each) {
    return each.is_default &&
           (each.key == "micro_batch_size" || each.key == "global_batch_size" || each.key == "seq_length");
  });
  std::erase(file.notes, kNoGpusNote);  // trainer.n_gpus_per_node does
  file.without_effect.insert(file.without_effect.end(), own.begin(), own.end());
  file.refused.insert(file.refused.end(), unknown.begin(), unknown.end());
  return file;
}

void set_verl_fsdp(LaunchArguments& from) {
  const std::string actor = "actor_rollout_ref.actor.";
  const std::string type = actor + "fsdp_config.model_dtype";
  const std::string dtype = from.text(type, "fp32");
  const bool wide = dtype == "fp32" || dtype == "float32";
  if (!wide && dtype != "bf16" && dtype != "bfloat16") from.refuse(type, "fp32 or bfloat16");
  const std::string strategy = actor + "strategy";
  const std::string sharding = from.text(strategy, "fsdp");
  if (sharding != "fsdp" && sharding != "fsdp2") from.refuse(strategy, "fsdp, fsdp2 or megatron");
  from.set("software", wide ? "verl" : "torchtune", wide ? strategy : type);
  if (!wide) from.approximated(type, "states in 16 bits are predicted as torchtune's");
  const std::string reshard = actor + "fsdp_config.reshard_after_forward";
  from.set("zero_stage", from.has(reshard) && !from.on(reshard) ? "2" : "3", strategy);
  from.set("precision", "bf16", type);
  if (wide) from.set_default("grad_dtype", "fp32");
  from.set_default("make_vocab_size_divisible_by", "1");
  const std::string recompute = "actor_rollout_ref.model.enable_gradient_checkpointing";
  const bool whole = !from.has(recompute) || from.on(recompute);
  from.set("recompute_granularity", whole ? "full" : "none", recompute);
  const std::string sequence = from.has(actor + "ulysses_sequence_parallel_size")
                                   ? actor + "ulysses_sequence_parallel_size"
                                   : actor + "fsdp_config.ulysses_sequence_parallel_size";
  if (from.integer(sequence, 1) > 1) {
    from.set("context_parallel_size", from.text(sequence, ""), sequence);
    from.set("cp_comm_type", "all_gather", sequence);
    from.approximated(sequence, "keys and values are gathered, in place of an exchange of heads (Ulysses)");
  }
  const std::string size = actor + "fsdp_config.fsdp_size";
  const std::int64_t world = std::stoll(from.setting("world_size", "0"));
  const std::string shards = from.text(size, "-1");
  if (shards != "-1" && world > 0) {
    const std::int64_t of = from.integer(size, 0);
    if (of <= 0 || world % of != 0) from.refuse(size, fmt::format("-1, or a divisor of {}", world));
    if (of < world) from.set("num_distributed_optimizer_instances", fmt::format("{}", world / of), size);
  }
  if (from.number("actor_rollout_ref.actor.entropy_coeff", 0) != 0)
    from.approximated(actor + "entropy_coeff", "logits are predicted without the copies of their entropy");
}

void set_verl_adapters(LaunchArguments& from, bool megatron) {
  const std::string of = megatron ? "actor_rollout_ref.model.lora." : "actor_rollout_ref.model.lora_";
  const std::string rank = of + "rank", type = of + "type";
  const std::string loaded = megatron ? of + "adapter_path" : "actor_rollout_ref.model.lora_adapter_path";
  if (from.integer(rank, 0) == 0) {
    if (!megatron && from.has(loaded))
      from.not_modelled(loaded, "adapters of an unknown rank, without " + rank);
    return;
  }
  // Modules have an A each with PEFT, and with Megatron-Bridge's canonical_lora.
  const std::string kind = megatron ? from.text(type, "lora") : "canonical_lora";
  if (kind != "lora" && kind != "canonical_lora") return from.not_modelled(type, printable(kind));
  from.set("frozen", kind, megatron && from.has(type) ? type : rank);
  from.set("lora_rank", from.text(rank, ""), rank);
  from.set("lora_alpha", from.text(of + "alpha", megatron ? "32" : "16"), of + "alpha");
  const std::string modules = megatron ? of + "target_modules" : "actor_rollout_ref.model.target_modules";
  const std::set<std::string> names = listed(from.find(modules), "all-linear");
  const auto targets = adapter_targets(names);
  if (!targets)
    return from.not_modelled(modules, "expected all-linear, or names such as q_proj or linear_qkv");
  from.set("lora_targets", targets->key, modules);
  if (!targets->exact) from.approximated(modules, fmt::format("adapters are predicted on {}", targets->key));
}

void set_verl_placement(LaunchArguments& from, bool megatron) {
  const std::string in =
      megatron ? "actor_rollout_ref.actor.megatron." : "actor_rollout_ref.actor.fsdp_config.";
  const std::string of_parameters = in + "param_offload", of_states = in + "optimizer_offload";
  const bool parameters = from.on(of_parameters), states = from.on(of_states);
  const char* const pool = "rollout.n_gpus_per_node";
  const bool apart = from.has(pool) || from.has("rollout.nnodes");
  const char* const shares = "actor_rollout_ref.hybrid_engine";
  if (!apart && from.has(shares) && !from.on(shares))
    from.not_modelled(shares, "an engine apart, without rollout.n_gpus_per_node");
  if (apart) {
    const std::int64_t gpus = gpus_of_nodes(from, pool, "rollout.nnodes");
    from.set("rollout_placement", "one_step_off", pool);
    from.set("rollout_world_size", fmt::format("{}", gpus), pool);
    from.set("rl_framework", "verl", pool);
    if (parameters || states)
      from.approximated(parameters ? of_parameters : of_states,
                        "states are predicted to stay on the training's devices");
    return;
  }
  from.set("rollout_placement", states ? "colocated" : "resident", states ? of_states : of_parameters);
  if (states && !parameters)
    from.approximated(of_states, "parameters are predicted to leave the device with the optimizer's states");
  if (parameters && !states)
    from.approximated(of_parameters, "parameters are predicted to stay on the device with the states");
  const char* const frees = "actor_rollout_ref.rollout.free_cache_engine";
  if (!from.has(frees) || from.on(frees)) {
    from.set("rl_framework", "verl", frees);
    from.file().notes.emplace_back(
        "verl's work on the host is not predicted; its engine sleeps while training works");
  }
}

}  // namespace plumbline
