// Every key, with its kind and limits.
#include "core/config_text/config_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/layer_modules_keys.hpp"
#include "core/config_text/slow_ranks_key.hpp"
#include "core/config_text/special_keys.hpp"
#include "core/config_text/topic_keys.hpp"

namespace plumbline {
namespace {

constexpr double kMaxDropout = 0.99;
constexpr std::int64_t kMaxModules = 16;  // MTP modules
constexpr std::int64_t kMostImages = 1 << 16;
constexpr std::int64_t kMaxFp8Margin = 15;  // headroom of E5M2 above 1
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

constexpr KeyNames<3> kRecompute = {"none", "selective", "full"};
constexpr KeyNames<3> kRecomputeMethods = {"uniform", "block", "interval"};
constexpr KeyNames<3> kBackends = {"cpu", "cuda", "emulated"};
constexpr KeyNames<2> kEmulatedClocks = {"real", "virtual"};
constexpr KeyNames<4> kCudaGraphImpls = {"none", "local", "transformer_engine", "full_iteration"};
constexpr KeyNames<4> kCpCommTypes = {"p2p", "all_gather", "a2a", "a2a+p2p"};
constexpr KeyNames<4> kDispatchers = {"auto", "allgather", "alltoall", "flex"};
constexpr KeyNames<3> kLoadBalancing = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
constexpr KeyNames<2> kDropPolicies = {"probs", "position"};
constexpr KeyNames<2> kAttentionBackends = {"fused", "unfused"};
constexpr KeyNames<3> kFrozen = {"none", "lora", "canonical_lora"};
constexpr KeyNames<5> kTasks = {"train", "sft", "generate", "grpo", "ppo"};
constexpr KeyNames<3> kLoraTargets = {"qkv", "attention", "all"};
constexpr KeyNames<5> kFrozenWeights = {"native", "nf4", "nf4_double", "int8", "int4"};
constexpr KeyNames<2> kGradDTypes = {"fp32", "same"};
constexpr KeyNames<3> kFp8Formats = {"none", "e4m3", "hybrid"};
constexpr KeyNames<2> kFp4Formats = {"none", "e2m1"};
constexpr KeyNames<4> kFp8Recipes = {"delayed", "tensorwise", "blockwise", "mxfp8"};

/// Beyond the largest the squares of scaled gradients would leave fp32.
constexpr double kLeastLossScale = 1e-6;
constexpr double kLargestLossScale = 1e12;

std::vector<ConfigKey> make_keys() {
  using C = RunConfig;
  std::vector<ConfigKey> keys = {
      {"model", "", kModelExpected,
       [](ConfigDraft& draft, const ConfigText& value) {
         const std::int64_t modules = draft.config.model.prediction_modules;  // set by a key of its own
         draft.config.model = model_value(value, "model");
         draft.config.model.prediction_modules = modules;
       },
       // A record stands alone: a model that has no name elsewhere is written out.
       [](const RunConfig& config) {
         return config.model.name == "inline" ? to_config_json(config.model) : config.model.name;
       }},
      integer_key("mtp_num_layers", "", at(&C::model, &ModelConfig::prediction_modules), 0, kMaxModules),
      boolean_key("mtp_use_repeated_layer", at(&C::prediction, &PredictionConfig::repeated)),
      boolean_key("keep_mtp_spec_in_bf16", at(&C::prediction, &PredictionConfig::keep_in_bf16)),
      number_key("mtp_loss_scaling_factor", at(&C::prediction, &PredictionConfig::loss_scaling_factor), 0,
                 1e6),
      text_key("hardware", at(&C::machine, &MachineConfig::hardware), PathOr::name,
               "a hardware preset or the path of a profile"),
      text_key("software", at(&C::machine, &MachineConfig::software), PathOr::name,
               "plumbline, a framework such as megatron-core, or an inference engine such as vllm"),
      choice_key("cuda_graph_impl", at(&C::machine, &MachineConfig::cuda_graph_impl), kCudaGraphImpls),
      text_key("cuda_graph_modules", at(&C::machine, &MachineConfig::cuda_graph_modules), PathOr::name,
               "all, or parts of a layer such as attn,moe_router,moe_preprocess"),
      choice_key("backend", at(&C::machine, &MachineConfig::backend), kBackends),
      integer_key(
          "world_size", "gpus", 1, kMostRanks,
          [](ConfigDraft& draft, std::int64_t n) { draft.world_size = n; },
          [](const RunConfig& config) { return config.parallel.world_size; }),
      integer_key("tensor_model_parallel_size", "tp", at(&C::parallel, &ParallelConfig::tensor), 1,
                  kMostRanks),
      integer_key("pipeline_model_parallel_size", "pp", at(&C::parallel, &ParallelConfig::pipeline), 1,
                  kMostRanks),
      integer_key(
          "data_parallel_size", "dp", 1, kMostRanks,
          [](ConfigDraft& draft, std::int64_t n) { draft.data_parallel_size = n; },
          [](const RunConfig& config) { return config.parallel.data(); }),
      integer_key("virtual_pipeline_chunks", "",
                  at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::virtual_chunks), 1, kMostRanks),
      integer_key("context_parallel_size", "cp", at(&C::parallel, &ParallelConfig::context), 1, kMostRanks),
      choice_key("cp_comm_type", at(&C::parallel, &ParallelConfig::cp, &ContextParallelConfig::comm_type),
                 kCpCommTypes),
      hierarchical_key(),
      boolean_key("cp_load_balance",
                  at(&C::parallel, &ParallelConfig::cp, &ContextParallelConfig::load_balance)),
      integer_key("expert_model_parallel_size", "ep", at(&C::parallel, &ParallelConfig::expert), 1,
                  kMostRanks),
      integer_key("expert_tensor_parallel_size", "etp", at(&C::parallel, &ParallelConfig::expert_tensor), 0,
                  kMostRanks),
      choice_key("moe_token_dispatcher_type",
                 at(&C::parallel, &ParallelConfig::ep, &ExpertParallelConfig::token_dispatcher),
                 kDispatchers),
      boolean_key("sequence_parallel", at(&C::parallel, &ParallelConfig::sequence_parallel)),
      boolean_key("tp_comm_overlap",
                  at(&C::parallel, &ParallelConfig::tp, &TensorParallelConfig::comm_overlap)),
      boolean_key("overlap_moe_expert_parallel_comm",
                  at(&C::parallel, &ParallelConfig::ep, &ExpertParallelConfig::overlap_comm)),
      boolean_key("delay_wgrad_compute",
                  at(&C::parallel, &ParallelConfig::ep, &ExpertParallelConfig::delay_wgrad_compute)),
      boolean_key("moe_shared_expert_overlap",
                  at(&C::parallel, &ParallelConfig::ep, &ExpertParallelConfig::shared_expert_overlap)),
      boolean_key("tp_reduce_in_fp32",
                  at(&C::parallel, &ParallelConfig::tp, &TensorParallelConfig::reduce_in_fp32)),
      choice_key("vocab_parallel", at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::vocab_parallel),
                 kVocabParallelNames),
      text_key("layer_distribution",
               at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::layer_distribution), PathOr::name,
               "even, balanced, embedding+loss, embedding, loss, or the layers of every stage such as "
               "9,9,8,6, or 9,*,6"),
      text_key("pipeline_schedule", at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::schedule),
               PathOr::name, "the name of a schedule or the path of a .csv"),
      number_key("zero_bubble_memory",
                 at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::zero_bubble_memory), 0.01, 100),
      integer_key("zero_stage", "", at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::zero_stage), 0,
                  3),
      integer_key("num_distributed_optimizer_instances", "",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::optimizer_instances), 1,
                  kMostRanks),
      integer_key("zero_hpz_partition_size", "",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::hpz_partition_size), 1,
                  kMostRanks),
      optional_boolean_key("overlap_p2p_comm",
                           at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::overlap_p2p_comm)),
      boolean_key("defer_embedding_wgrad_compute",
                  at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::defer_embedding_wgrad_compute)),
      integer_key("wgrad_deferral_limit", "",
                  at(&C::parallel, &ParallelConfig::pp, &PipelineConfig::wgrad_deferral_limit), 0,
                  kMostRanks),
      optional_boolean_key("overlap_grad_reduce",
                           at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::overlap_grad_reduce)),
      optional_boolean_key("overlap_param_gather",
                           at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::overlap_param_gather)),
      boolean_key("align_param_gather",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::align_param_gather)),
      boolean_key("overlap_param_gather_with_optimizer_step",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::gather_with_update)),
      boolean_key("fsdp_double_buffer",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::fsdp_double_buffer)),
      choice_key("recompute_granularity", at(&C::recompute, &RecomputeConfig::granularity), kRecompute),
      choice_key("recompute_method", at(&C::recompute, &RecomputeConfig::method), kRecomputeMethods),
      integer_key("recompute_num_layers", "", at(&C::recompute, &RecomputeConfig::num_layers), 1, kMostRanks),
      recompute_modules_key(),
      offload_modules_key(),
      integer_key("cpu_offloading_num_layers", "", at(&C::offload, &OffloadConfig::num_layers), 0,
                  kMostRanks),
      number_key("optimizer_offload_fraction", at(&C::offload, &OffloadConfig::optimizer_fraction), 0, 1),
      boolean_key("offload_params", at(&C::offload, &OffloadConfig::params)),
      choice_key("attention_backend", at(&C::numerics, &NumericsConfig::attention_backend),
                 kAttentionBackends),
      number_key("hidden_dropout", at(&C::numerics, &NumericsConfig::hidden_dropout), 0, kMaxDropout),
      number_key("attention_dropout", at(&C::numerics, &NumericsConfig::attention_dropout), 0, kMaxDropout),
      boolean_key("cross_entropy_loss_fusion", at(&C::numerics, &NumericsConfig::cross_entropy_loss_fusion)),
      boolean_key("deterministic_mode", at(&C::numerics, &NumericsConfig::deterministic_mode)),
      number_key("moe_aux_loss_coeff", at(&C::mixture, &MixtureConfig::aux_loss_coeff), 0, 1e6),
      choice_key("moe_router_load_balancing_type", at(&C::mixture, &MixtureConfig::load_balancing),
                 kLoadBalancing),
      number_key("moe_z_loss_coeff", at(&C::mixture, &MixtureConfig::z_loss_coeff), 0, 1e6),
      number_key("moe_router_bias_update_rate", at(&C::mixture, &MixtureConfig::bias_update_rate), 0, 1e6),
      capacity_key("moe_expert_capacity_factor", &MixtureConfig::capacity_factor),
      capacity_key("moe_expert_rank_capacity_factor", &MixtureConfig::rank_capacity_factor),
      boolean_key("moe_paged_stash", at(&C::mixture, &MixtureConfig::paged_stash)),
      number_key("moe_paged_stash_buffer_size_factor_cuda", at(&C::mixture, &MixtureConfig::stash_factor),
                 0.01, 1e6),
      boolean_key("moe_pad_expert_input_to_capacity", at(&C::mixture, &MixtureConfig::pad_to_capacity)),
      choice_key("moe_token_drop_policy", at(&C::mixture, &MixtureConfig::drop_policy), kDropPolicies),
      text_key("moe_routing", at(&C::mixture, &MixtureConfig::routing), PathOr::name,
               "balanced, worst, zipf:S, or the path of a .csv"),
      choice_key("task", at(&C::generation, &GenerationConfig::task), kTasks),
      integer_key("prompt_length", "", at(&C::generation, &GenerationConfig::prompt_length), 0, kMaxInt),
      integer_key("max_new_tokens", "", at(&C::generation, &GenerationConfig::max_new_tokens), 1, kMaxInt),
      integer_key("seq_length", "", at(&C::batch, &BatchConfig::seq_length), 1, kMaxInt),
      integer_key("prefix_length", "", at(&C::batch, &BatchConfig::prefix_length), 0, kMaxInt),
      integer_key("images_per_sequence", "", at(&C::batch, &BatchConfig::images_per_sequence), 0,
                  kMostImages),
      integer_key("image_tokens", "", at(&C::batch, &BatchConfig::image_tokens), 1, kMaxInt),
      boolean_key("packed_sequence", at(&C::batch, &BatchConfig::packed_sequence)),
      boolean_key("dynamic_context_parallel", at(&C::batch, &BatchConfig::dynamic_context_parallel)),
      integer_key("micro_batch_size", "mbs", at(&C::batch, &BatchConfig::micro_batch_size), 1, kMaxInt),
      integer_key("global_batch_size", "gbs", at(&C::batch, &BatchConfig::global_batch_size), 1, kMaxInt),
      precision_key(),
      optional_number_key("loss_scale",
                          at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::constant),
                          kLeastLossScale, kLargestLossScale),
      number_key("initial_loss_scale",
                 at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::initial), kLeastLossScale,
                 kLargestLossScale),
      number_key("min_loss_scale", at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::least),
                 kLeastLossScale, kLargestLossScale),
      integer_key("loss_scale_window", "",
                  at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::window), 1, kMostRanks),
      integer_key("hysteresis", "",
                  at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::hysteresis), 1, kMostRanks),
      choice_key("fp8_format", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::format), kFp8Formats),
      choice_key("fp8_recipe", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::recipe), kFp8Recipes),
      integer_key("fp8_margin", "", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::margin), 0,
                  kMaxFp8Margin),
      integer_key("fp8_amax_history_len", "",
                  at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::amax_history_len), 1, kMostRanks),
      boolean_key("fp8_param_gather", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::param_gather)),
      boolean_key("disable_parameter_transpose_cache",
                  at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::transposes_again)),
      boolean_key("activation_func_fp8_input_store",
                  at(&C::numerics, &NumericsConfig::activation_func_fp8_input_store)),
      choice_key("fp4_format", at(&C::numerics, &NumericsConfig::fp4_format), kFp4Formats),
      boolean_key("first_last_layers_bf16", at(&C::numerics, &NumericsConfig::first_last_layers_bf16)),
      integer_key("num_layers_at_start_in_bf16", "",
                  at(&C::numerics, &NumericsConfig::num_layers_at_start_in_bf16), 0, kMostRanks),
      integer_key("num_layers_at_end_in_bf16", "",
                  at(&C::numerics, &NumericsConfig::num_layers_at_end_in_bf16), 0, kMostRanks),
      boolean_key("fp8_dot_product_attention", at(&C::numerics, &NumericsConfig::fp8_dot_product_attention)),
      choice_key("grad_dtype", at(&C::numerics, &NumericsConfig::grad_dtype), kGradDTypes),
      choice_key("frozen", at(&C::finetune, &FinetuneConfig::frozen), kFrozen),
      integer_key("lora_rank", "", at(&C::finetune, &FinetuneConfig::lora_rank), 1, kMostRanks),
      number_key("lora_alpha", at(&C::finetune, &FinetuneConfig::lora_alpha), 0, 1e6),
      choice_key("lora_targets", at(&C::finetune, &FinetuneConfig::lora_targets), kLoraTargets),
      choice_key("frozen_weights", at(&C::finetune, &FinetuneConfig::frozen_weights), kFrozenWeights),
      boolean_key("freeze_language_model", at(&C::finetune, &FinetuneConfig::freeze_language_model)),
      boolean_key("freeze_vision_model", at(&C::finetune, &FinetuneConfig::freeze_vision_model)),
      boolean_key("freeze_vision_projection", at(&C::finetune, &FinetuneConfig::freeze_vision_projection)),
      integer_key("make_vocab_size_divisible_by", "",
                  at(&C::parallel, &ParallelConfig::make_vocab_size_divisible_by), 1, kMostRanks),
      integer_key("ddp_bucket_size", "",
                  at(&C::parallel, &ParallelConfig::dp, &DataParallelConfig::bucket_size), 1,
                  std::int64_t{1} << 40),
      memory_budget_key(),
      boolean_key("nccl_ub", at(&C::machine, &MachineConfig::nccl_ub)),
      integer_key("steps", "", at(&C::measure, &MeasureConfig::steps), 1, kMostRanks),
      integer_key("warmup_steps", "", at(&C::measure, &MeasureConfig::warmup_steps), 0, kMostRanks),
      optional_number_key("timeout_s", at(&C::measure, &MeasureConfig::timeout_s), 0.001, 1e9),
      number_key("emulated_time_factor", at(&C::machine, &MachineConfig::emulated_time_factor), 0, 1e6),
      choice_key("emulated_clock", at(&C::machine, &MachineConfig::emulated_clock), kEmulatedClocks),
      seed_key(),
      slow_ranks_key(),
      text_key("weights", at(&C::files, &FilesConfig::weights), PathOr::path,
               "the folder of a Hugging Face checkpoint"),
      text_key("data", at(&C::files, &FilesConfig::data), PathOr::path,
               "a file of token ids, .npy or raw int32"),
      text_key("save_gradients", at(&C::files, &FilesConfig::save_gradients), PathOr::path,
               "the path of a file to write"),
      text_key("save_routing", at(&C::files, &FilesConfig::save_routing), PathOr::path,
               "the path of a .csv file to write"),
      text_key("lora_weights", at(&C::files, &FilesConfig::lora_weights), PathOr::path,
               "the folder of PEFT adapters"),
      text_key("save_weights", at(&C::files, &FilesConfig::save_weights), PathOr::path,
               "the path of a folder to write"),
  };
  std::vector<ConfigKey> optimizer = optimizer_keys();
  const auto behind =
      std::find_if(keys.begin(), keys.end(), [](const auto& key) { return key.name == "grad_dtype"; }) + 1;
  keys.insert(behind, std::make_move_iterator(optimizer.begin()), std::make_move_iterator(optimizer.end()));
  for (ConfigKey& key : distillation_keys()) keys.push_back(std::move(key));
  for (ConfigKey& key : reinforcement_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = make_keys();
  return kKeys;
}

}  // namespace plumbline
