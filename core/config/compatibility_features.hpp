// Both sides of the rows of the table of what goes together (compatibility.hpp).
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "core/base/one_line.hpp"
#include "core/config/compatibility.hpp"
#include "core/schedule/schedule_traits.hpp"

/// A condition on a configuration `c`, a text of it, and a number or name as text.
#define WHEN(...) [](const ::plumbline::RunConfig& c) -> bool { return static_cast<void>(c), (__VA_ARGS__); }
#define TEXT(...) \
  [](const ::plumbline::RunConfig& c) -> std::string { return static_cast<void>(c), (__VA_ARGS__); }
#define VALUE(...) TEXT(fmt::format("{}", __VA_ARGS__))
/// Either of the model or of the teacher: a condition on a model `m`, and the name of the one that meets it.
#define MODEL_WHEN(...) \
  WHEN(which_model(c, [](const ModelConfig& m) -> bool { return (__VA_ARGS__); }) != nullptr)
#define MODEL_NAME(...) TEXT(which_model(c, [](const ModelConfig& m) -> bool { return (__VA_ARGS__); })->name)

namespace plumbline::features {

using C = RunConfig;

inline bool is_own(const C& c) {
  return c.machine.own_step();
}
inline std::string model_name(const C& c) {
  return c.model.name;
}
inline std::string mixture_name(const C& c) {
  return c.model.name + ", a mixture of experts";
}
inline const ModelConfig* which_model(const C& c, bool (*has)(const ModelConfig&)) {
  if (has(c.model)) return &c.model;
  return c.distillation.teacher && has(*c.distillation.teacher) ? &*c.distillation.teacher : nullptr;
}
/// A schedule that is built in has the trait; `otherwise` of a file.
inline bool schedule_has(const C& c, bool ScheduleTraits::*trait, bool otherwise) {
  const ScheduleTraits* const traits = find_schedule_traits(c.parallel.pp.schedule);
  return traits != nullptr ? traits->*trait : otherwise;
}
inline std::string yes_or_no(bool value) {
  return value ? "true" : "false";
}

// Properties of model and run: no key, their name, the condition, and what a refusal calls them if not by
// name.
constexpr Feature kExperts{"", "a mixture of experts", WHEN(c.model.mixture.experts > 0), mixture_name};
constexpr Feature kHasExperts{"", "a mixture of experts", kExperts.on, model_name};
/// A routing is saved of student and teacher; a recorded one is read of both.
constexpr Feature kExpertsToSave{"", "a mixture of experts", MODEL_WHEN(m.mixture.experts > 0), model_name};
constexpr Feature kExpertsToRoute{"", "a mixture of experts",
                                  WHEN(kExperts.on(c) || (c.mixture.routing_file() && kExpertsToSave.on(c))),
                                  model_name};
constexpr Feature kAnyExperts{"", "a mixture of experts", MODEL_WHEN(m.mixture.experts > 0)};
constexpr Feature kSharedExpert{"", "a shared expert", WHEN(c.model.mixture.shared > 0), model_name};
constexpr Feature kBiasedExperts{"", "experts with a bias", WHEN(c.model.mixture.expert_bias), model_name};
constexpr Feature kSpread{"", "experts spread over ranks", WHEN(c.spreads_experts())};
constexpr Feature kTeacher{"", "a teacher", WHEN(c.distillation.teacher.has_value())};
constexpr Feature kPrefix{"", "a prefix_length", WHEN(c.batch.prefix_length > 0)};
constexpr Feature kPacked{"", "packed sequences", WHEN(c.batch.packed.on())};
constexpr Feature kManyStages{"pipeline_model_parallel_size", "above 1", WHEN(c.parallel.pipeline > 1),
                              VALUE(c.parallel.pipeline)};
constexpr Feature kOneStage{"", "one pipeline rank", WHEN(c.parallel.pipeline == 1)};
constexpr Feature kBlockPositions{"", "positions in blocks", MODEL_WHEN(m.position.of_blocks)};
constexpr Feature kAlibi{"", "ALiBi", MODEL_WHEN(m.position.kind == Positions::alibi),
                         MODEL_NAME(m.position.kind == Positions::alibi)};
constexpr Feature kWindow{"", "a sliding window", MODEL_WHEN(m.window.size != 0),
                          MODEL_NAME(m.window.size != 0)};
constexpr Feature kShortWindow{"", "a sliding window",
                               WHEN(c.model.window.size > 0 && c.model.window.size < c.batch.seq_length)};
constexpr Feature kNormedResidual{"", "a normed residual", WHEN(c.model.norms.residual != 0), model_name};
constexpr Feature kWideNorms{"", "norms over all heads of queries and keys",
                             MODEL_WHEN(m.norms.qk&& m.predicted.query_norm == QueryNorm::width)};
constexpr Feature kHiddenDropout{"hidden_dropout", "above 0", WHEN(c.numerics.hidden_dropout > 0),
                                 VALUE(c.numerics.hidden_dropout)};
constexpr Feature kOutputBias{"", "an output bias", WHEN(c.model.biases.output), model_name};
constexpr Feature kNormedOutput{"", "normalised output rows", WHEN(c.model.norms.output_rows), model_name};
constexpr Feature kCapacity{"", "moe_expert_capacity_factor", WHEN(c.mixture.capacity_factor > 0)};
constexpr Feature kAnyBalance{"", "moe_aux_loss_coeff", WHEN(c.mixture.aux_loss_coeff != 0)};
constexpr Feature kAnyModules{"", "mtp_num_layers", WHEN(c.model.prediction_modules > 0)};
constexpr Feature kData{"", "data", WHEN(!c.files.data.empty())};
constexpr Feature kRecomputedShared{"", "shared_experts among recompute_modules",
                                    WHEN(c.recompute.selected().shared_experts)};

// Software and machine.
constexpr Feature kOther{"software", "other than plumbline", WHEN(!is_own(c)), TEXT(c.machine.software)};
constexpr Feature kTrainer{"software", "a framework for training",
                           WHEN(!is_own(c) && !is_inference_engine(c.machine.software)),
                           TEXT(c.machine.software)};
constexpr Feature kOwn{"software", "plumbline", is_own, TEXT(c.machine.software)};
/// Filled up to the mean, experts have as many rows as with the balanced routing that is predicted.
constexpr Feature kOtherUnfilled{"software", "other than plumbline",
                                 WHEN(c.mixture.capacity_factor != 1 || !c.mixture.pad_to_capacity),
                                 kOther.found};
constexpr Feature kOtherDistilling{"", "other software with a mixture of experts",
                                   WHEN(!is_own(c) && (c.distillation.teacher->mixture || c.model.mixture)),
                                   TEXT(c.model.name + " and software " + c.machine.software)};
constexpr Feature kDevice{"backend", "cpu, cuda", WHEN(c.machine.backend != Backend::emulated),
                          VALUE(c.machine.backend == Backend::cpu ? "cpu" : "cuda")};
constexpr Feature kGraphs{"cuda_graph_impl", "local, transformer_engine, full_iteration",
                          WHEN(c.machine.cuda_graph_impl != CudaGraphImpl::none),
                          VALUE(cuda_graph_impl_name(c.machine.cuda_graph_impl))};
constexpr Feature kLayerGraphs{
    "cuda_graph_impl", "local, transformer_engine",
    WHEN(kGraphs.on(c) && c.machine.cuda_graph_impl != CudaGraphImpl::full_iteration), kGraphs.found};
constexpr Feature kGraphModules{"cuda_graph_modules", "other than all",
                                WHEN(c.machine.cuda_graph_modules != "all"),
                                TEXT(printable(c.machine.cuda_graph_modules))};
constexpr Feature kVirtualClock{"", "emulated_clock virtual",
                                WHEN(c.machine.emulated_clock == EmulatedTime::virtual_time)};
constexpr Feature kTimeFactor{"emulated_time_factor", "other than 1",
                              WHEN(c.machine.emulated_time_factor != 1),
                              VALUE(c.machine.emulated_time_factor)};
constexpr Feature kSlowRanks{"slow_ranks", "any", WHEN(!c.measure.slow_ranks.empty()), TEXT("ranks")};
constexpr Feature kLossMask{"loss_mask", "a path", WHEN(!c.files.loss_mask.empty()), TEXT("a path")};
constexpr Feature kSaveRouting{"save_routing", "a path", WHEN(!c.files.save_routing.empty()), TEXT("a path")};

// Models that can be predicted but not executed.
constexpr Feature kOtherRope{"model", "a rope_type other than default and llama3",
                             MODEL_WHEN(!m.rotary.scaling.predicted_type.empty()), [](const C& c) {
                               const bool own = !c.model.rotary.scaling.predicted_type.empty();
                               const ModelConfig& m = own ? c.model : *c.distillation.teacher;
                               return fmt::format("rope_type {} in {}", m.rotary.scaling.predicted_type,
                                                  m.name);
                             }};
constexpr Feature kPredictedSwitches{"model", "layers of a family that is predicted only",
                                     MODEL_WHEN(!m.predicted.names.empty()), [](const C& c) {
                                       const bool own = !c.model.predicted.names.empty();
                                       const ModelConfig& m = own ? c.model : *c.distillation.teacher;
                                       return fmt::format("{} with {}", m.name, m.predicted.names);
                                     }};
constexpr Feature kHybrid{"model", "a hybrid model", MODEL_WHEN(static_cast<bool>(m.hybrid)),
                          MODEL_NAME(static_cast<bool>(m.hybrid))};
constexpr Feature kMixedLayers{"", "layers without experts in between",
                               WHEN(!c.model.predicted.has_experts.empty()), model_name};
constexpr Feature kPlainQueries{"model", "latent attention without q_lora_rank",
                                MODEL_WHEN(m.latent&& m.latent.query_rank == 0), [](const C& c) {
                                  const bool own = c.model.latent && c.model.latent.query_rank == 0;
                                  const ModelConfig& m = own ? c.model : *c.distillation.teacher;
                                  return m.name + " without q_lora_rank";
                                }};

// Parallelism.
constexpr Feature kContext{"context_parallel_size", "above 1", WHEN(c.parallel.context > 1),
                           VALUE(c.parallel.context)};
constexpr Feature kTensor{"tensor_model_parallel_size", "above 1", WHEN(c.parallel.tensor > 1),
                          VALUE(c.parallel.tensor)};
constexpr Feature kExpertRanks{"expert_model_parallel_size", "above 1", WHEN(c.parallel.expert > 1),
                               VALUE(c.parallel.expert)};
constexpr Feature kSpreadRanks{"expert_model_parallel_size", "above 1", kSpread.on, kExpertRanks.found};
constexpr Feature kFolded{
    "expert_tensor_parallel_size", "other than tensor's", WHEN(c.parallel.folds_experts()),
    TEXT(fmt::format("{} on {} tensor ranks", c.parallel.expert_tensor, c.parallel.tensor))};
constexpr Feature kDispatcher{"moe_token_dispatcher_type", "other than auto",
                              WHEN(c.parallel.ep.token_dispatcher != TokenDispatcher::automatic),
                              VALUE(token_dispatcher_name(c.parallel.ep.token_dispatcher))};
constexpr Feature kFlex{"moe_token_dispatcher_type", "flex",
                        WHEN(kExperts.on(c) && c.parallel.ep.token_dispatcher == TokenDispatcher::flex),
                        kDispatcher.found};
constexpr Feature kGathered{"moe_token_dispatcher_type", "allgather",
                            WHEN(c.parallel.ep.token_dispatcher == TokenDispatcher::allgather),
                            kDispatcher.found};
constexpr Feature kGatheredSpread{"moe_token_dispatcher_type", "allgather",
                                  WHEN(kSpread.on(c) && kGathered.on(c)), kDispatcher.found};
constexpr Feature kUnbalanced{"cp_load_balance", "false", WHEN(kContext.on(c) && !c.parallel.cp.load_balance),
                              TEXT("false")};
constexpr Feature kSequence{"sequence_parallel", "true", WHEN(c.parallel.sequence_parallel),
                            TEXT(yes_or_no(c.parallel.sequence_parallel))};
constexpr Feature kSequenceOnRanks{"sequence_parallel", "true",
                                   WHEN(c.parallel.effective_sequence_parallel()), TEXT("true")};
constexpr Feature kWholeTokens{"sequence_parallel", "false with experts cut regardless of tensor ranks",
                               WHEN(kTensor.on(c) && !kSequence.on(c) &&
                                    ((!is_own(c) && !c.generation.on()) || (kSpread.on(c) && kFolded.on(c)))),
                               TEXT("false")};
constexpr Feature kCutExperts{
    "", "a mixture of experts", kExperts.on, [](const C& c) {
      const int etp = c.parallel.effective_expert_tensor();
      return fmt::format(
          "{}, on {} tensor ranks and {}", mixture_name(c), c.parallel.tensor,
          is_own(c) ? fmt::format("expert_tensor_parallel_size {}", etp) : "software " + c.machine.software);
    }};
constexpr Feature kTensorOverlap{"tp_comm_overlap", "true", WHEN(c.parallel.tp.comm_overlap&& kTensor.on(c)),
                                 TEXT("true")};
constexpr Feature kPairs{"overlap_moe_expert_parallel_comm", "true", WHEN(c.parallel.ep.overlap_comm),
                         TEXT("true")};
constexpr Feature kDelayed{"delay_wgrad_compute", "true", WHEN(c.parallel.ep.delay_wgrad_compute),
                           TEXT("true")};
constexpr Feature kPaired{"", "overlap_moe_expert_parallel_comm", WHEN(c.parallel.ep.overlap_comm)};
constexpr Feature kTravelling{"", "experts on several ranks", WHEN(c.parallel.expert > 1)};
constexpr Feature kOverlapShared{"moe_shared_expert_overlap", "true",
                                 WHEN(c.parallel.ep.shared_expert_overlap), TEXT("true")};
constexpr Feature kDeferral{"defer_embedding_wgrad_compute", "true",
                            WHEN(c.parallel.pp.defer_embedding_wgrad_compute), TEXT("true")};
constexpr Feature kDeferralLimit{"wgrad_deferral_limit", "above 0",
                                 WHEN(c.parallel.pp.wgrad_deferral_limit > 0),
                                 VALUE(c.parallel.pp.wgrad_deferral_limit)};
constexpr Feature kVocabulary{"vocab_parallel", "vocab-1, vocab-2, interlaced",
                              WHEN(c.parallel.splits_vocabulary()),
                              VALUE(vocab_parallel_name(c.parallel.pp.vocab_parallel))};
constexpr Feature kSharded{"zero_stage", "1, 2 or 3", WHEN(c.parallel.dp.zero_stage > 0),
                           VALUE(c.parallel.dp.zero_stage)};
constexpr Feature kZero3{"zero_stage", "3", WHEN(c.parallel.dp.zero_stage == 3),
                         VALUE(c.parallel.dp.zero_stage)};
constexpr Feature kInstances{"num_distributed_optimizer_instances", "above 1",
                             WHEN(c.parallel.dp.optimizer_instances > 1),
                             VALUE(c.parallel.dp.optimizer_instances)};
constexpr Feature kSecondary{"zero_hpz_partition_size", "above 1", WHEN(c.parallel.dp.hpz_partition_size > 1),
                             VALUE(c.parallel.dp.hpz_partition_size)};
constexpr Feature kGather{"overlap_param_gather", "true",
                          WHEN(c.parallel.dp.overlap_param_gather.value_or(false)), TEXT("true")};
constexpr Feature kStepGather{"overlap_param_gather_with_optimizer_step", "true",
                              WHEN(c.parallel.dp.gather_with_update), TEXT("true")};
constexpr Feature kDoubleBuffer{"fsdp_double_buffer", "true", WHEN(c.parallel.dp.fsdp_double_buffer),
                                TEXT("true")};
constexpr Feature kUnpaired{"pipeline_schedule", "one without pairs",
                            WHEN(!schedule_has(c, &ScheduleTraits::pairs, true)),
                            TEXT(printable(c.parallel.pp.schedule))};
constexpr Feature kSplit{"pipeline_schedule", "one that splits backwards, or a file",
                         WHEN(schedule_has(c, &ScheduleTraits::split_backward, true)), kUnpaired.found};
constexpr Feature kUneven{"layer_distribution", "other than even",
                          WHEN(c.parallel.pp.layer_distribution != "even"),
                          TEXT(printable(c.parallel.pp.layer_distribution))};

// Numbers.
constexpr Feature kFp8{"fp8_format", "e4m3, hybrid", WHEN(c.numerics.fp8.on()),
                       TEXT(c.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid")};
constexpr Feature kGatheredMixture{"", "a mixture with moe_token_dispatcher_type allgather",
                                   kGatheredSpread.on,
                                   TEXT(mixture_name(c) + ", and moe_token_dispatcher_type allgather")};
constexpr Feature kFoldedMixture{
    "", "a mixture with expert_tensor_parallel_size other than tensor's",
    WHEN(kExperts.on(c) && kFolded.on(c)),
    TEXT(mixture_name(c) + ", and expert_tensor_parallel_size " + kFolded.found(c))};
constexpr Feature kDelayedScales{"fp8_recipe", "delayed",
                                 WHEN(kFp8.on(c) && c.numerics.fp8.recipe == Fp8Recipe::delayed),
                                 TEXT("delayed")};
constexpr Feature kFp4{"fp4_format", "e2m1", WHEN(c.numerics.fp4_format != Fp4Format::none), TEXT("e2m1")};
constexpr Feature kBlockScales{"fp8_recipe", "blockwise, mxfp8",
                               WHEN(kFp8.on(c) && (c.numerics.fp8.recipe == Fp8Recipe::blockwise ||
                                                   c.numerics.fp8.recipe == Fp8Recipe::mxfp8)),
                               TEXT(c.numerics.fp8.recipe == Fp8Recipe::mxfp8 ? "mxfp8" : "blockwise")};
constexpr Feature kWideEnds{"first_last_layers_bf16", "true", WHEN(c.numerics.first_last_layers_bf16),
                            TEXT("true")};
constexpr Feature kFp8Attention{"fp8_dot_product_attention", "true",
                                WHEN(c.numerics.fp8_dot_product_attention), TEXT("true")};
constexpr Feature kFp8Gather{"fp8_param_gather", "true", WHEN(kFp8.on(c) && c.numerics.fp8.param_gather),
                             TEXT("true")};
constexpr Feature kTransposesAgain{"disable_parameter_transpose_cache", "true",
                                   WHEN(kFp8.on(c) && c.numerics.fp8.transposes_again), TEXT("true")};
constexpr Feature kActivationInput{"activation_func_fp8_input_store", "true",
                                   WHEN(c.numerics.activation_func_fp8_input_store), TEXT("true")};
constexpr Feature kSwiglu{"", "SwiGLU", WHEN(c.model.activation == Activation::swiglu)};
constexpr Feature kFp16{"precision", "fp16", WHEN(c.numerics.precision == DType::fp16), TEXT("fp16")};
constexpr Feature kUnfusedAttention{"attention_backend", "unfused",
                                    WHEN(c.numerics.attention_backend == AttentionBackend::unfused),
                                    TEXT("unfused")};
constexpr Feature kDeterministic{"deterministic_mode", "true", WHEN(c.numerics.deterministic_mode),
                                 TEXT("true")};
constexpr Feature kMuon{"optimizer", "muon", WHEN(c.optimizer.muons()), TEXT("muon")};
constexpr Feature kFirstMoment{"exp_avg_dtype", "other than fp32",
                               WHEN(c.optimizer.exp_avg_dtype != MomentDType::fp32),
                               TEXT(moment_dtype_name(c.optimizer.exp_avg_dtype))};
constexpr Feature kSecondMoment{"exp_avg_sq_dtype", "other than fp32",
                                WHEN(c.optimizer.exp_avg_sq_dtype != MomentDType::fp32),
                                TEXT(moment_dtype_name(c.optimizer.exp_avg_sq_dtype))};
constexpr Feature kRemainders{"store_param_remainders", "true", WHEN(c.optimizer.store_param_remainders),
                              TEXT("true")};
constexpr Feature kBf16{"precision", "bf16", WHEN(c.numerics.precision == DType::bf16),
                        TEXT(c.numerics.precision == DType::fp16 ? "fp16" : "fp32")};
constexpr Feature kUnfusedEntropy{"cross_entropy_loss_fusion", "false",
                                  WHEN(!c.numerics.cross_entropy_loss_fusion), TEXT("false")};

// Mixtures, memory, modules, teachers.
constexpr Feature kPrefixLength{"prefix_length", "above 0", kPrefix.on, VALUE(c.batch.prefix_length)};
constexpr Feature kRankCapacity{"moe_expert_rank_capacity_factor", "above 0",
                                WHEN(c.mixture.rank_capacity_factor > 0),
                                VALUE(c.mixture.rank_capacity_factor)};
constexpr Feature kPagedStash{"moe_paged_stash", "true", WHEN(c.mixture.paged_stash), TEXT("true")};
constexpr Feature kCapacityFactor{"moe_expert_capacity_factor", "above 0", kCapacity.on,
                                  VALUE(c.mixture.capacity_factor)};
constexpr Feature kPadded{"moe_pad_expert_input_to_capacity", "true", WHEN(c.mixture.pad_to_capacity),
                          TEXT("true")};
constexpr Feature kDropLast{"moe_token_drop_policy", "position",
                            WHEN(c.mixture.drop_policy != TokenDropPolicy::probs), TEXT("position")};
constexpr Feature kBiasRate{"moe_router_bias_update_rate", "other than the default",
                            WHEN(c.mixture.bias_update_rate != MixtureConfig().bias_update_rate),
                            VALUE(c.mixture.bias_update_rate)};
constexpr Feature kRouting{"moe_routing", "other than balanced", WHEN(c.mixture.routing != "balanced"),
                           TEXT(c.mixture.routing)};
constexpr Feature kBalancingType{
    "moe_router_load_balancing_type", "seq_aux_loss, global_aux_loss",
    WHEN(c.mixture.load_balancing != LoadBalancing::aux_loss),
    VALUE(c.mixture.load_balancing == LoadBalancing::seq_aux_loss ? "seq_aux_loss" : "global_aux_loss")};
constexpr Feature kAuxLoss{"moe_aux_loss_coeff", "above 0", kAnyBalance.on, VALUE(c.mixture.aux_loss_coeff)};
constexpr Feature kZLoss{"moe_z_loss_coeff", "above 0", WHEN(c.mixture.z_loss_coeff != 0),
                         VALUE(c.mixture.z_loss_coeff)};
constexpr Feature kSequenceLoss{
    "moe_aux_loss_coeff", "above 0 with seq_aux_loss and context_parallel_size above 1",
    WHEN(kContext.on(c) && kAuxLoss.on(c) && c.mixture.load_balancing == LoadBalancing::seq_aux_loss),
    kAuxLoss.found};
constexpr Feature kFull{"recompute_granularity", "full", WHEN(c.recompute.granularity == Recompute::full),
                        TEXT("full")};
constexpr Feature kPartial{"recompute_method", "block, interval", WHEN(c.recompute.partial()),
                           TEXT(c.recompute.method == RecomputeMethod::block ? "block" : "interval")};
constexpr Feature kSelective{"recompute_granularity", "selective",
                             WHEN(c.recompute.granularity == Recompute::selective),
                             TEXT(kFull.on(c) ? "full" : "none")};
constexpr Feature kRecomputed{"recompute_modules", "other than core_attn",
                              WHEN(c.recompute.modules != kCoreAttention),
                              TEXT(to_string(c.recompute.modules))};
constexpr Feature kOffload{"cpu_offloading_num_layers", "above 0", WHEN(c.offload.on()),
                           VALUE(c.offload.num_layers)};
constexpr Feature kModuleOffload{"offload_modules", "other than none", WHEN(c.offload.modules.any()),
                                 TEXT(to_string(c.offload.modules))};
constexpr Feature kStatesOffload{"optimizer_offload_fraction", "above 0",
                                 WHEN(c.offload.optimizer_fraction > 0), VALUE(c.offload.optimizer_fraction)};
constexpr Feature kParamsOffload{"offload_params", "true", WHEN(c.offload.params), TEXT("true")};
constexpr Feature kExpertOffload{
    "offload_modules", "of experts",
    WHEN(c.offload.modules.expert_fc1 || c.offload.modules.moe_act || c.offload.modules.fused_group_mlp),
    kModuleOffload.found};
constexpr Feature kModules{"mtp_num_layers", "above 0", kAnyModules.on, VALUE(c.model.prediction_modules)};
constexpr Feature kRecomputedNorms{"recompute_modules", "layernorm", WHEN(c.recompute.selected().layernorm),
                                   kRecomputed.found};
constexpr Feature kUnnormedInputs{"", "no norms of attention's and the MLP's inputs",
                                  WHEN(c.model.predicted.norms == NormPlaces::after)};
constexpr Feature kRepeatedModule{"mtp_use_repeated_layer", "true", WHEN(c.prediction.repeated),
                                  TEXT("true")};
constexpr Feature kWideModules{"keep_mtp_spec_in_bf16", "true", WHEN(c.prediction.keep_in_bf16),
                               TEXT("true")};
constexpr Feature kModuleLoss{
    "mtp_loss_scaling_factor", "other than the default",
    WHEN(c.prediction.loss_scaling_factor != PredictionConfig().loss_scaling_factor),
    VALUE(c.prediction.loss_scaling_factor)};
constexpr Feature kLora{"frozen", "lora", WHEN(c.finetune.lora()),
                        TEXT(!c.finetune.lora()       ? "none"
                             : c.finetune.canonical() ? "canonical_lora"
                                                      : "lora")};
constexpr Feature kAdaptersOfAll{"lora_targets", "all",
                                 WHEN(c.finetune.lora() && c.finetune.lora_targets == LoraTargets::all),
                                 TEXT("all")};
constexpr Feature kQuantizedWeights{"frozen_weights", "other than native", WHEN(c.finetune.quantized()),
                                    TEXT(frozen_weights_name(c.finetune.frozen_weights))};
constexpr Feature kImages{"images_per_sequence", "above 0", WHEN(c.batch.images_per_sequence > 0),
                          VALUE(c.batch.images_per_sequence)};
constexpr Feature kImageTokens{"image_tokens", "other than the default",
                               WHEN(c.batch.image_tokens != BatchConfig().image_tokens),
                               VALUE(c.batch.image_tokens)};
constexpr Feature kTower{"", "a vision tower", WHEN(static_cast<bool>(c.model.predicted.vision)), model_name};
constexpr Feature kFrozenLanguage{"freeze_language_model", "true", WHEN(c.finetune.freeze_language_model),
                                  TEXT("true")};
constexpr Feature kFrozenTower{"freeze_vision_model", "true", WHEN(c.finetune.freeze_vision_model),
                               TEXT("true")};
constexpr Feature kFrozenMerger{"freeze_vision_projection", "true", WHEN(c.finetune.freeze_vision_projection),
                                TEXT("true")};
constexpr Feature kFrozenPart{"", "frozen parts of a multimodal model", WHEN(c.finetune.freezes_parts())};
constexpr Feature kLatent{"", "latent attention", WHEN(static_cast<bool>(c.model.latent)), model_name};
constexpr Feature kTwoCopies{"pipeline_schedule", "bidirectional", WHEN([&] {
                               const ScheduleTraits* const traits =
                                   find_schedule_traits(c.parallel.pp.schedule);
                               return traits != nullptr && traits->bidirectional();
                             }()),
                             kUnpaired.found};
constexpr Feature kShardedGradients{"zero_stage", "2 or 3", WHEN(c.parallel.dp.zero_stage > 1),
                                    kSharded.found};
constexpr Feature kSharedHeads{"tensor_model_parallel_size", "above the key/value heads",
                               WHEN(c.parallel.tensor > c.model.kv_heads), kTensor.found};
constexpr Feature kAnyTeacher{"teacher", "any", kTeacher.on, TEXT(c.distillation.teacher->name)};
constexpr Feature kGenerate{"task", "generate", WHEN(c.generation.on()), TEXT("generate")};
constexpr Feature kFineTuning{"task", "sft", WHEN(c.fine_tunes()),
                              TEXT(std::string(task_name(c.generation.task)))};
constexpr Feature kReinforced{"task", "grpo or ppo", WHEN(c.reinforces()), kFineTuning.found};
/// Sequences that end before seq_length.
constexpr Feature kConversations{"task", "sft, grpo or ppo", WHEN(c.fine_tunes() || c.reinforces()),
                                 kFineTuning.found};
constexpr Feature kGroups{"task", "grpo", WHEN(c.generation.task == RunTask::grpo), TEXT("grpo")};
constexpr Feature kCritic{"critic", "any", WHEN(c.reinforcement.critic.has_value()),
                          TEXT(c.reinforcement.critic->name)};
constexpr Feature kPackedSequence{"packed_sequence", "true", WHEN(c.batch.packed_sequence),
                                  TEXT(yes_or_no(c.batch.packed_sequence))};
constexpr Feature kDynamic{"dynamic_context_parallel", "true", WHEN(c.batch.dynamic_context_parallel),
                           TEXT("true")};
constexpr Feature kStaticContext{"context_parallel_size", "above 1 without dynamic_context_parallel",
                                 WHEN(kContext.on(c) && !kDynamic.on(c)), kContext.found};
constexpr Feature kOtherExchange{"cp_comm_type", "other than p2p",
                                 WHEN(c.parallel.cp.comm_type != CpCommType::p2p),
                                 VALUE(cp_comm_type_name(c.parallel.cp.comm_type))};
constexpr Feature kAnyDropout{"hidden_dropout", "or attention_dropout above 0",
                              WHEN(c.numerics.hidden_dropout > 0 || c.numerics.attention_dropout > 0),
                              VALUE(std::max(c.numerics.hidden_dropout, c.numerics.attention_dropout))};
constexpr Feature kManySequences{"micro_batch_size", "above 1", WHEN(c.batch.micro_batch_size > 1),
                                 VALUE(c.batch.micro_batch_size)};
constexpr Feature kUnfusedLoss{"distillation_loss", "unfused",
                               WHEN(kTeacher.on(c) && c.distillation.loss == DistillationLoss::unfused),
                               TEXT("unfused")};
constexpr Feature kReverse{"distillation_kl", "reverse", WHEN(c.distillation.kl == DistillationKl::reverse),
                           TEXT("reverse")};

}  // namespace plumbline::features
