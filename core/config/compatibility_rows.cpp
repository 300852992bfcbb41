// The rows, in the order in which they are checked: sizes before the rows that need them.
#include "core/config/compatibility_features.hpp"
#include "core/config/compatibility_limits.hpp"

namespace plumbline {
namespace features {
namespace {

constexpr CompatibilityRow excludes(const Feature& feature, const Feature& other, std::string_view why,
                                    std::string_view expected, unsigned refusers = kEverybody) {
  return {feature.key, Relation::excludes, feature, other, why, expected, refusers};
}
constexpr CompatibilityRow needs(const Feature& feature, const Feature& other, std::string_view why,
                                 std::string_view expected, unsigned refusers = kEverybody) {
  return {feature.key, Relation::needs, feature, other, why, expected, refusers};
}
constexpr CompatibilityRow limits(std::string_view key, std::string_view limit, Limit* refusal,
                                  unsigned refusers = kEverybody) {
  return {key, Relation::limits, {}, {"", limit}, {}, {}, refusers, refusal};
}
constexpr CompatibilityRow of_teachers(CompatibilityRow row) {
  row.of_teachers = true;
  return row;
}

constexpr CompatibilityRow kRows[] = {
    limits(kTaskKey, "train, except by `generate` and `predict`", task_limit),
    limits("prompt_length", "with max_new_tokens at most seq_length", generated_limit),
    excludes(kGenerate, kOther, "whose engine is not predicted", "train, or software plumbline",
             kOtherSoftware),
    excludes(kGenerate, kTeacher, "", "train, or no teacher"),
    excludes(kGenerate, kContext, "which shards sequences", "train, or context_parallel_size 1"),
    excludes(kGenerate, kVocabulary, "", "train, or vocab_parallel none"),
    excludes(kGenerate, kModules, "whose drafts are not executed", "train, or mtp_num_layers 0"),
    excludes(kGenerate, kPrefix, "prompts are causal", "train, or prefix_length 0"),
    excludes(kGenerate, kFp8, "", "train, or fp8_format none"),
    limits("world_size", "a multiple of tensor x pipeline x context parallel size", world_size_limit),
    limits("tensor_model_parallel_size", "a divisor of heads and feed-forward columns", tensor_limit),
    limits("pipeline_model_parallel_size", "at least one layer per stage", stages_limit),
    needs(kTensorOverlap, kSequence, "", "sequence_parallel true"),
    // Sequences that ranks share.
    excludes(kContext, kPrefix, "chunks are of causal sequences with plain positions", "1"),
    excludes(kContext, kBlockPositions, "chunks are of causal sequences with plain positions", "1"),
    excludes(kUnbalanced, kOther, "which always balances", "true", kOtherSoftware),
    limits("context_parallel_size", "seq_length divisible into two chunks per rank", chunks_limit),
    limits("hierarchical_context_parallel_sizes", "two sizes, with cp_comm_type a2a+p2p alone",
           hierarchical_limit),
    limits("cp_comm_type", "K/V heads divisible by the all-to-all size", exchanged_heads_limit),
    limits("sequence_parallel", "seq_length divisible by tensor_model_parallel_size", sequence_limit),
    limits("seq_length", "at most the model's learned positions", positions_limit),
    // Batches.
    limits("global_batch_size", "a multiple of micro_batch_size x data parallel size", batch_limit),
    limits("micro_batch_size", "2^30 tokens at most", tokens_limit),
    // Eight and four bits.
    excludes(kFp4, kFp8, "", "one of them"),
    excludes(kFp4, kOwn, "which has no FP4 GEMMs", "none", kOwnStep),
    limits("fp8_format", "GEMM dimensions that are multiples of 16", fp8_limit),
    limits("fp4_format", "GEMM dimensions that are multiples of 16", fp4_limit),
    excludes(kGraphs, kOwn, "which has no CUDA graphs", "none", kOwnStep),
    needs(kGraphModules, kLayerGraphs, "",
          "all, or local or transformer_engine, which capture parts of layers"),
    limits("cuda_graph_modules", "all, or names of modules", graph_modules_limit),
    // Expert exchanges that overlap with another micro-batch's computation.
    needs(kPairs, kExpertRanks, "", "expert_model_parallel_size above 1", kOtherSoftware),
    needs(kPairs, kSpreadRanks, "", "expert_model_parallel_size above 1", kOwnStep),
    excludes(kPairs, kTeacher, "whose schedules have no pairs", "false, or none", kOwnStep),
    excludes(kPairs, kGathered, "whose exchanges are awaited", "alltoall", kOwnStep),
    excludes(kPairs, kVocabulary, "", "none", kOwnStep),
    excludes(kPairs, kUnpaired, "", "one with overlapped pairs of a forward and a backward, such as 1f1b",
             kOwnStep),
    // States that are sharded.
    needs(kInstances, kSharded, "which shards nothing", "zero_stage 1, 2 or 3"),
    limits("num_distributed_optimizer_instances", "a divisor of the ranks that hold the same parameters",
           instances_limit),
    limits("num_distributed_optimizer_instances", "a divisor of the ranks that hold the same experts",
           expert_instances_limit),
    needs(kGather, kSharded, "", "zero_stage 1, 2 or 3, which gather parameters", kOwnStep),
    excludes(kSecondary, kOther, "", "1, or plumbline", kOtherSoftware),
    needs(kSecondary, kZero3, "which keeps parameters whole", "zero_stage 3", kOwnStep),
    limits("zero_hpz_partition_size", "a divisor of the ranks that hold the same parameters, less than all",
           secondary_limit, kOwnStep),
    // Prefixes, and switches of models.
    limits("prefix_length", "at most seq_length", prefix_limit),
    excludes(kPrefixLength, kAlibi, "which has ALiBi", "0"),
    excludes(kPrefixLength, kWindow, "which has a sliding window", "0"),
    excludes(kPrefixLength, kOther, "", "0", kOtherSoftware),
    excludes(kFp8, kNormedResidual, "whose residual is the output of its norms", "none"),
    excludes(kFp8, kNormedResults, "", "none", kOwnStep),
    excludes(kHiddenDropout, kNormedResults, "", "0", kOwnStep),
    excludes(kVocabulary, kOutputBias, "whose output layer has biases", "none"),
    excludes(kVocabulary, kNormedOutput, "whose output layer has normalised rows", "none"),
    excludes(kDeterministic, kOther, "whose deterministic kernels are not predicted", "false",
             kOtherSoftware),
    // Mixtures of experts.
    needs(kBiasRate, kBiasedExperts, "whose experts have no bias", "no such key"),
    needs(kPadded, kCapacity, "so that nothing is dropped", "false"),
    needs(kDropLast, kCapacity, "so that nothing is dropped", "probs"),
    needs(kCapacityFactor, kHasExperts, "which has no experts", "none"),
    excludes(kCapacityFactor, kOtherUnfilled, "whose dropped rows are not predicted",
             "none, 1 with moe_pad_expert_input_to_capacity, or plumbline", kOtherSoftware),
    excludes(kCapacityFactor, kGatheredSpread, "", "alltoall", kOwnStep),
    excludes(kCapacityFactor, kFolded, "which choose for a part of the tokens each",
             "expert_tensor_parallel_size as tensor_model_parallel_size", kOwnStep),
    limits("moe_expert_capacity_factor", "at most the tokens of a micro-batch", capacity_limit, kOwnStep),
    needs(kRouting, kExpertsToRoute, "which has no experts", "balanced"),
    limits("moe_routing", "balanced, real or zipf:S", other_routing_limit, kOtherSoftware),
    excludes(kRouting, kMixedLayers, "which has layers without experts in between", "balanced"),
    limits("moe_routing", "balanced, worst, zipf:S or a .csv", routing_limit, kOwnStep),
    excludes(kOverlapShared, kOther, "whose overlap is not predicted", "false, or plumbline", kOtherSoftware),
    needs(kOverlapShared, kSharedExpert, "which has no shared expert", "false", kOwnStep),
    needs(kOverlapShared, kSpreadRanks, "", "expert_model_parallel_size above 1", kOwnStep),
    excludes(kOverlapShared, kGathered, "", "alltoall", kOwnStep),
    excludes(kOverlapShared, kPairs, "which overlaps the same dispatch and combine", "one of both", kOwnStep),
    excludes(kOverlapShared, kRecomputedShared, "whose recomputation has no dispatch to overlap",
             "moe, or none of it", kOwnStep),
    excludes(kAnyTeacher, kOtherDistilling, "which distils no mixtures of experts", "none, or plumbline",
             kOtherSoftware),
    limits("teacher", "compressed queries (q_lora_rank) in an MoE model with latent attention",
           teacher_queries_limit, kOwnStep),
    needs(kBalancingType, kAnyBalance, "so that nothing is balanced", "a coefficient, or aux_loss"),
    needs(kAuxLoss, kHasExperts, "which has no experts", "0"),
    needs(kZLoss, kHasExperts, "which has no experts", "0"),
    needs(kSaveRouting, kExpertsToSave, "which has no experts", "none"),
    of_teachers(excludes(kFlex, kOwn, "which has no kernels of DeepEP or HybridEP",
                         "allgather, alltoall or auto", kOwnStep)),
    of_teachers(limits("expert_model_parallel_size", "a divisor of the experts and of a stage's ranks",
                       experts_limit)),
    of_teachers(excludes(kWholeTokens, kCutExperts, "every rank sends its own tokens to experts", "true")),
    excludes(kLora, kExperts, "", "none", kOtherSoftware),
    excludes(kFp8, kGatheredMixture, "", "alltoall", kOwnStep),
    excludes(kFp8, kFoldedMixture, "", "expert_tensor_parallel_size as tensor_model_parallel_size", kOwnStep),
    limits("fp8_format", "expert GEMM dimensions that are multiples of 16", fp8_experts_limit, kOwnStep),
    excludes(
        kSequenceLoss, kExperts, "the load is that of single sequences",
        "0 with context_parallel_size > 1, or moe_router_load_balancing_type aux_loss or global_aux_loss",
        kOwnStep),
    // Memory that is saved.
    needs(kRecomputed, kSelective, "", "selective, or no such key"),
    limits("recompute_modules", "modules that the model has", modules_limit),
    excludes(kOffload, kManyStages, "Megatron-Core offloads on one stage", "0", kOtherSoftware),
    limits("cpu_offloading_num_layers", "fewer than the model's layers", offload_limit),
    excludes(kOffload, kFull, "which keeps layer inputs only", "selective or none"),
    excludes(kOffload, kPairs, "whose actions alternate", "0", kOwnStep),
    excludes(kOffload, kTeacher, "which is not tested with offloading", "0", kOwnStep),
    excludes(kOffload, kLora, "adapter activations are not offloaded", "0", kOwnStep),
    excludes(kOffload, kNormedResults, "", "0", kOwnStep),
    excludes(kRecomputedNorms, kUnnormedInputs, "", "other modules", kOwnStep),
    // Weight gradients of the output layer at the end.
    excludes(kDeferral, kOther, "whose step is predicted without", "false", kOtherSoftware),
    excludes(kDeferral, kOneStage, "which has no bubble to compute them in", "false", kOwnStep),
    excludes(kDeferral, kSplit, "", "false, or one whose backwards are whole, such as 1f1b", kOwnStep),
    excludes(kDeferral, kVocabulary, "whose passes are spread over all ranks", "false", kOwnStep),
    excludes(kDeferral, kTeacher, "whose outputs last stages keep", "false", kOwnStep),
    excludes(kDeferral, kPairs, "whose pairs have whole backwards", "false", kOwnStep),
    // Multi-token prediction.
    needs(kModuleLoss, kAnyModules, "", "mtp_num_layers of at least 1"),
    limits("mtp_num_layers", "a model of RMSNorm, sequential blocks and rotary positions, without biases",
           foreign_model_limit, kOwnStep),
    limits("mtp_num_layers", "fewer modules than tokens", module_tokens_limit, kOwnStep),
    excludes(kModules, kShortWindow, "a module's attention has none", "0", kOwnStep),
    excludes(kModules, kPrefix, "modules are causal", "0", kOwnStep),
    excludes(kModules, kPacked, "tokens ahead are those of one sequence", "0", kOwnStep),
    excludes(kModules, kTeacher, "", "0, or none", kOwnStep),
    excludes(kModules, kLora, "", "0, or none", kOwnStep),
    excludes(kModules, kVocabulary, "modules are on the last stage", "0, or none", kOwnStep),
    limits("mtp_num_layers", "a tensor size that divides the hidden size, at most the key/value heads",
           module_tensor_limit, kOwnStep),
    // Adapters, and the rest.
    excludes(kLora, kTeacher, "", "none"),
    excludes(kLora, kVocabulary, "", "none"),
    limits("lora_rank", "at most the hidden size", adapter_limit),
    limits("slow_ranks", "existing ranks, each once", slow_ranks_limit),
    excludes(kTimeFactor, kVirtualClock, "", "1"),
    excludes(kUneven, kTeacher, "", "even"),
    limits("layer_distribution", "the model's number of layers, at least one per stage", distribution_limit),
    limits("pipeline_schedule", "a schedule without vocabulary passes; vocab_parallel adds them",
           passes_limit),
    limits("vocab_parallel", "a schedule with vocabulary passes", passes_of_schedule_limit),
    excludes(kVocabulary, kSequenceOnRanks, "", "it off", kOtherSoftware),
    limits("vocab_parallel", "at least one token id per rank", vocabulary_limit),
    needs(kLossMask, kData, "", "data, the token ids of the mask"),
    // Distillation.
    limits("teacher", "the student's vocabulary, padding aside", teacher_vocabulary_limit),
    limits("pipeline_model_parallel_size", "at least one teacher layer per stage", teacher_stages_limit),
    limits("pipeline_schedule", "1f1b with a teacher; without one no distillation schedule",
           teacher_schedule_limit),
    excludes(kUnfusedEntropy, kTeacher, "use distillation_loss: unfused with a teacher", "true"),
    excludes(kVocabulary, kTeacher, "", "none"),
    limits("tensor_model_parallel_size", "a divisor of the teacher's heads and columns",
           teacher_tensor_limit),
    limits("seq_length", "at most the teacher's learned positions", teacher_positions_limit),
    excludes(kUnfusedLoss, kTensor, "unfused tensors are not sharded", "fused"),
    excludes(kUnfusedLoss, kReverse, "", "fused or forward"),
    // Features that are predicted but not executed, in whole or on some backends.
    limits("backend", "none, with software other than plumbline", no_backend_limit, kPredictOther),
    limits("hardware", "a preset or profile, with backend emulated", emulated_hardware_limit,
           kRunEmulated | kPredictHere),
    limits("software", "plumbline", own_software_limit, kRun),
    excludes(kLora, kOwn, "whose step trains all parameters",
             "none, or software: megatron-core to predict it", kRun | kPredictOwn),
    excludes(kBlockScales, kOwn, "whose FP8 scales are tensorwise", "delayed or tensorwise",
             kRun | kPredictOwn),
    excludes(kFp8Gather, kOwn, "whose weights are gathered in the precision of the run", "false",
             kRun | kPredictOwn),
    excludes(kTransposesAgain, kOwn, "whose weights have both forms", "false", kRun | kPredictOwn),
    excludes(kActivationInput, kOwn, "whose activations keep their inputs as they are", "false",
             kRun | kPredictOwn),
    needs(kActivationInput, kSwiglu, "whose input alone is kept in 8 bits", "false"),
    excludes(kSlowRanks, kDevice, "", "none, or backend cpu or emulated", kRunCuda | kPredictHere),
    excludes(kOtherRope, kDevice, "", "rope_type default or llama3, or backend emulated", kRunCpu | kRunCuda),
    excludes(kPredictedSwitches, kOwn, "whose step has no such layers", "a model that is executed", kRun),
    excludes(kTensor, kWideNorms, "whose tensor ranks do not sum squares", "1", kRun),
    excludes(kPlainQueries, kOwn, "whose queries are compressed", "a q_lora_rank; predictions need none",
             kRun),
    needs(kExpertRanks, kAnyExperts, "", "1", kRun | kPredictOwn | kPredictOther),
    needs(kFolded, kAnyExperts, "", "tensor_model_parallel_size", kRun | kPredictOwn | kPredictOther),
    needs(kDispatcher, kAnyExperts, "", "auto", kRun | kPredictOwn | kPredictOther),
    excludes(kUnfusedAttention, kDevice, "", "fused, or backend emulated", kRunCpu | kRunCuda | kPredictHere),
    excludes(kFp16, kDevice, "", "fp32 or bf16, or backend emulated", kRunCpu | kRunCuda | kPredictHere),
};

}  // namespace
}  // namespace features

std::span<const CompatibilityRow> compatibility_rows() {
  return features::kRows;
}

}  // namespace plumbline
