#include "core/config_text/idle_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

using C = RunConfig;

struct NeedyKey {
  std::string_view name;
  bool (*works)(const C&);
  std::string_view needs;
};

bool is_own(const C& c) {
  return c.machine.own_step();
}
bool has_muon(const C& c) {
  return c.optimizer.muons();
}
bool has_fp8(const C& c) {
  return c.numerics.fp8.on();
}
bool has_wide_ends(const C& c) {
  return c.numerics.first_last_layers_bf16;
}
bool has_16_bits(const C& c) {
  return c.numerics.precision != DType::fp32;
}
bool has_copies(const C& c) {
  return c.parallel.copies() > 1;
}
bool has_tensor_ranks(const C& c) {
  return c.parallel.tensor > 1;
}
bool has_context_ranks(const C& c) {
  return c.parallel.context > 1;
}
bool has_stages(const C& c) {
  return c.parallel.pipeline > 1;
}
bool is_emulated(const C& c) {
  return c.machine.backend == Backend::emulated;
}

constexpr std::string_view kCopies = "a data_parallel_size or context_parallel_size above 1";
constexpr std::string_view kTensor = "a tensor_model_parallel_size above 1";
constexpr std::string_view kStages = "a pipeline_model_parallel_size above 1";
constexpr std::string_view kContext = "a context_parallel_size above 1";

bool generates(const C& c) {
  return c.generation.on();
}
bool makes_tokens(const C& c) {
  return c.generation.on() || c.reinforces();
}
bool reinforces(const C& c) {
  return c.reinforces();
}
bool has_critic(const C& c) {
  return c.has_critic();
}
bool has_reference(const C& c) {
  return c.reinforces() && c.reinforcement.loss.kl_coef > 0;
}

constexpr std::string_view kGenerating = "task generate, grpo or ppo";
constexpr std::string_view kReinforcing = "task grpo or ppo";
constexpr std::string_view kReference = "task grpo or ppo and kl_loss_coef above 0";

constexpr NeedyKey kNeedyKeys[] = {
    {"prompt_length", makes_tokens, kGenerating},
    {"max_new_tokens", makes_tokens, kGenerating},
    {"num_prompts_per_step", reinforces, kReinforcing},
    {"num_generations_per_prompt", reinforces, kReinforcing},
    {"ppo_epochs", reinforces, kReinforcing},
    {"critic", has_critic, "task ppo"},
    {"reward_model", reinforces, kReinforcing},
    {"rollout_software", reinforces, kReinforcing},
    {"rl_framework", [](const C& c) { return c.reinforces() && !c.machine.own_step(); },
     "task grpo or ppo and the software of a framework"},
    {"rollout_placement", reinforces, kReinforcing},
    {"rollout_tensor_model_parallel_size", reinforces, kReinforcing},
    {"rollout_pipeline_model_parallel_size", reinforces, kReinforcing},
    {"rollout_world_size", reinforces, kReinforcing},
    {"max_num_seqs", reinforces, kReinforcing},
    {"max_num_batched_tokens",
     [](const C& c) { return c.reinforces() && is_inference_engine(c.reinforcement.rollout.software); },
     "task grpo or ppo and an inference engine as rollout_software"},
    {"gpu_memory_utilization",
     [](const C& c) { return c.reinforces() && is_inference_engine(c.reinforcement.rollout.software); },
     "task grpo or ppo and an inference engine as rollout_software"},
    {"response_length_mean", reinforces, kReinforcing},
    {"response_length_sigma",
     [](const C& c) { return c.reinforces() && c.reinforcement.rollout.length_mean > 0; },
     "task grpo or ppo and response_length_mean"},
    {"response_lengths", reinforces, kReinforcing},
    {"kl_loss_coef", reinforces, kReinforcing},
    {"kl_loss_type", has_reference, kReference},
    {"clip_ratio_low", reinforces, kReinforcing},
    {"clip_ratio_high", reinforces, kReinforcing},
    {"entropy_coeff", reinforces, kReinforcing},
    {"loss_agg_mode", reinforces, kReinforcing},
    {"use_kl_in_reward", has_critic, "task ppo"},
    {"gae_gamma", has_critic, "task ppo"},
    {"gae_lambda", has_critic, "task ppo"},
    {"cliprange_value", has_critic, "task ppo"},
    {"cp_comm_type", has_context_ranks, kContext},
    {"cp_load_balance", has_context_ranks, kContext},
    {"expert_tensor_parallel_size", [](const C& c) { return static_cast<bool>(c.model.mixture); },
     "a mixture of experts"},
    {"moe_token_dispatcher_type",
     [](const C& c) { return c.spreads_experts() || c.spreads_teacher_experts() || !is_own(c); },
     "an expert_model_parallel_size above 1"},
    {"moe_shared_expert_overlap", [](const C& c) { return c.model.mixture.shared > 0 || is_own(c); },
     "a shared expert"},
    {"moe_paged_stash_buffer_size_factor_cuda", [](const C& c) { return c.mixture.paged_stash; },
     "moe_paged_stash"},
    {"moe_routing",
     [](const C& c) { return c.mixture.routing != "worst" || c.spreads_experts() || !is_own(c); },
     "an expert_model_parallel_size above 1"},
    {"sequence_parallel", has_tensor_ranks, kTensor},
    {"tp_comm_overlap", has_tensor_ranks, kTensor},
    {"tp_reduce_in_fp32", [](const C& c) { return has_tensor_ranks(c) && has_16_bits(c); },
     "a precision of 16 bits and a tensor_model_parallel_size above 1"},
    {"layer_distribution", has_stages, kStages},
    {"zero_bubble_memory", [](const C& c) { return c.parallel.pp.schedule == "zb-auto"; },
     "pipeline_schedule zb-auto"},
    {"zero_stage", has_copies, kCopies},
    {"overlap_p2p_comm", has_stages, kStages},
    {"overlap_grad_reduce", has_copies, kCopies},
    {"overlap_param_gather", [](const C& c) { return c.parallel.effective_zero_stage() > 0 || !is_own(c); },
     "a zero_stage and ranks to shard over"},
    {"align_param_gather", [](const C& c) { return c.parallel.pp.schedule == "interleaved" && !is_own(c); },
     "pipeline_schedule interleaved and software other than plumbline"},
    {"fsdp_double_buffer", [](const C& c) { return has_copies(c) && c.parallel.dp.zero_stage != 2; },
     "ranks to shard parameters over"},
    {"overlap_param_gather_with_optimizer_step",
     [](const C& c) {
       return is_own(c) ||
              (c.parallel.pp.schedule == "interleaved" && c.parallel.effective_zero_stage() == 1 &&
               c.parallel.dp.overlap_param_gather.value_or(true));
     },
     "pipeline_schedule interleaved, zero_stage 1 and overlap_param_gather"},
    {"recompute_method", [](const C& c) { return c.recompute.granularity == Recompute::full; },
     "recompute_granularity full"},
    {"recompute_num_layers", [](const C& c) { return c.recompute.granularity == Recompute::full; },
     "recompute_granularity full"},
    {"deterministic_mode", [](const C& c) { return c.machine.backend == Backend::cuda || !is_own(c); },
     "backend cuda"},
    {"fp8_recipe", has_fp8, "fp8_format"},
    {"fp8_margin", has_fp8, "fp8_format"},
    {"fp8_amax_history_len",
     [](const C& c) { return has_fp8(c) && c.numerics.fp8.recipe == Fp8Recipe::delayed; },
     "fp8_format with fp8_recipe delayed"},
    {"fp8_param_gather", has_fp8, "fp8_format"},
    {"disable_parameter_transpose_cache", has_fp8, "fp8_format"},
    {"fp8_dot_product_attention", has_fp8, "fp8_format"},
    {"first_last_layers_bf16",
     [](const C& c) { return has_fp8(c) || c.numerics.fp4_format != Fp4Format::none; },
     "fp8_format or fp4_format"},
    {"keep_mtp_spec_in_bf16",
     [](const C& c) {
       return c.model.prediction_modules > 0 && (has_fp8(c) || c.numerics.fp4_format != Fp4Format::none);
     },
     "mtp_num_layers, and fp8_format or fp4_format"},
    {"num_layers_at_start_in_bf16", has_wide_ends, "first_last_layers_bf16"},
    {"num_layers_at_end_in_bf16", has_wide_ends, "first_last_layers_bf16"},
    {"cross_entropy_loss_fusion", has_16_bits, "a precision of 16 bits"},
    {"grad_dtype", has_16_bits, "a precision of 16 bits"},
    {"weight_decay", [](const C& c) { return c.optimizer.kind != Optimizer::sgd; },
     "optimizer adam, lion or muon"},
    {"sgd_momentum", [](const C& c) { return c.optimizer.kind == Optimizer::sgd; }, "optimizer sgd"},
    {"muon_momentum", has_muon, "optimizer muon"},
    {"muon_nesterov", has_muon, "optimizer muon"},
    {"muon_scale_mode", has_muon, "optimizer muon"},
    {"muon_extra_scale_factor", has_muon, "optimizer muon"},
    {"muon_num_ns_steps", has_muon, "optimizer muon"},
    {"muon_coefficient_type", has_muon, "optimizer muon"},
    {"muon_tp_mode", [](const C& c) { return has_muon(c) && c.parallel.tensor > 1; },
     "optimizer muon and tensor_model_parallel_size above 1"},
    {"muon_split_qkv", has_muon, "optimizer muon"},
    {"lora_rank", [](const C& c) { return c.finetune.lora(); }, "frozen lora"},
    {"lora_alpha", [](const C& c) { return c.finetune.lora() && is_own(c); },
     "frozen lora and software plumbline"},
    {"lora_weights", [](const C& c) { return c.finetune.lora() && is_own(c); },
     "frozen lora and software plumbline"},
    {"lora_targets", [](const C& c) { return c.finetune.lora(); }, "frozen lora"},
    // With ZeRO plumbline reduces every unit by itself.
    {"ddp_bucket_size",
     [](const C& c) { return has_copies(c) && (c.parallel.dp.zero_stage == 0 || !is_own(c)); },
     "zero_stage 0 and a data_parallel_size or context_parallel_size above 1"},
    {"nccl_ub", [](const C& c) { return c.machine.backend == Backend::cuda; }, "backend cuda"},
    {"emulated_time_factor", is_emulated, "backend emulated"},
    {"emulated_clock", is_emulated, "backend emulated"},
};

/// Keys of a training step, which generation has no use for.
constexpr std::string_view kTrainingKeys[] = {"mtp_loss_scaling_factor",
                                              "sequence_parallel",
                                              "tp_comm_overlap",
                                              "overlap_moe_expert_parallel_comm",
                                              "moe_shared_expert_overlap",
                                              "pipeline_schedule",
                                              "virtual_pipeline_chunks",
                                              "zero_bubble_memory",
                                              "zero_stage",
                                              "num_distributed_optimizer_instances",
                                              "zero_hpz_partition_size",
                                              "overlap_p2p_comm",
                                              "defer_embedding_wgrad_compute",
                                              "wgrad_deferral_limit",
                                              "overlap_grad_reduce",
                                              "overlap_param_gather",
                                              "align_param_gather",
                                              "overlap_param_gather_with_optimizer_step",
                                              "fsdp_double_buffer",
                                              "recompute_granularity",
                                              "recompute_method",
                                              "recompute_num_layers",
                                              "recompute_modules",
                                              "cpu_offloading_num_layers",
                                              "offload_modules",
                                              "attention_backend",
                                              "hidden_dropout",
                                              "attention_dropout",
                                              "cross_entropy_loss_fusion",
                                              "deterministic_mode",
                                              "moe_aux_loss_coeff",
                                              "moe_router_load_balancing_type",
                                              "moe_z_loss_coeff",
                                              "moe_router_bias_update_rate",
                                              "global_batch_size",
                                              "grad_dtype",
                                              "loss_scale",
                                              "initial_loss_scale",
                                              "min_loss_scale",
                                              "loss_scale_window",
                                              "hysteresis",
                                              "optimizer",
                                              "learning_rate",
                                              "weight_decay",
                                              "clip_grad",
                                              "ddp_bucket_size",
                                              "steps",
                                              "data",
                                              "loss_mask",
                                              "save_gradients",
                                              "save_routing",
                                              "save_weights",
                                              "lora_weights"};

/// Value that a key has without being given.
std::string idle_value(const ConfigKey& key, const C& c) {
  static const RunConfig kDefaults;
  if (key.name == "global_batch_size" && c.generation.on())
    return fmt::format("{}", c.batch.micro_batch_size * c.parallel.data());
  return key.print(kDefaults);
}

}  // namespace

std::vector<std::string> idle_keys(const RunConfig& config) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view name, std::string_view needs) {
    const ConfigKey* const known = find_config_key(name);
    const std::string value = known->print(config);
    if (value != idle_value(*known, config))
      lines.push_back(fmt::format("{}: found {}, without effect; needs {}", name, value, needs));
  };
  const auto trains_only = [&](std::string_view name) {
    return generates(config) && std::ranges::find(kTrainingKeys, name) != std::end(kTrainingKeys);
  };
  if (generates(config))
    for (const std::string_view name : kTrainingKeys) add(name, "task train");
  for (const NeedyKey& key : kNeedyKeys) {
    if (!key.works(config) && !trains_only(key.name)) add(key.name, key.needs);
  }
  return lines;
}

}  // namespace plumbline
