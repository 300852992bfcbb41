// Parallelism of a training step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

/// K/V exchange between context-parallel ranks (Megatron-LM's cp_comm_type): p2p, block by block in a ring;
/// all_gather, all at once before attention; a2a, heads exchanged for sequence parts (Ulysses); a2a+p2p,
/// heads among neighbours and a ring of such groups.
enum class CpCommType { p2p, all_gather, a2a, a2a_p2p };
/// "p2p".
constexpr std::string_view cp_comm_type_name(CpCommType type) {
  switch (type) {
    case CpCommType::p2p:
      return "p2p";
    case CpCommType::all_gather:
      return "all_gather";
    case CpCommType::a2a:
      return "a2a";
    case CpCommType::a2a_p2p:
      return "a2a+p2p";
  }
  return "";
}

/// Sizes of a2a+p2p (Megatron-LM's hierarchical_context_parallel_sizes): ranks that exchange heads, and
/// groups of these round a ring. 0, 0: not given.
struct HierarchicalContext {
  int heads = 0;
  int ring = 0;
  bool given() const { return heads > 0; }
  friend bool operator==(const HierarchicalContext&, const HierarchicalContext&) = default;
};

/// Dispatch of tokens to the experts of other ranks (Megatron-LM's moe_token_dispatcher_type): allgather, all
/// tokens are gathered; alltoall, every copy is sent to the rank of its expert; flex, the same with one copy
/// per rank and node, by kernels of DeepEP or HybridEP.
enum class TokenDispatcher { automatic, allgather, alltoall, flex };
/// "alltoall".
constexpr std::string_view token_dispatcher_name(TokenDispatcher dispatcher) {
  constexpr std::string_view kNames[] = {"auto", "allgather", "alltoall", "flex"};
  return kNames[static_cast<int>(dispatcher)];
}

/// Tensor parallelism, besides its size.
struct TensorParallelConfig {
  /// With sequence parallelism: collectives of the tensor group overlap with the products that need or make
  /// their data.
  bool comm_overlap = false;
  bool reduce_in_fp32 = true;  // partial sums of tensor ranks; else in the storage type
};

/// Pipeline parallelism, besides its size.
struct PipelineConfig {
  int virtual_chunks = 1;                   // per pipeline rank; 1: the schedule's default
  std::string schedule = "1f1b";            // a name, or the path of a .csv file
  std::string layer_distribution = "even";  // see core/config/layer_distribution.hpp
  /// vocab-1, vocab-2, interlaced: embedding and output layer are split over all ranks of the model.
  VocabPasses vocab_parallel = VocabPasses::none;
  double zero_bubble_memory = 1;  // zb-auto: activations that a rank may hold, as a multiple of 1F1B's
  /// Receives between stages are posted one computation ahead. Empty: as the software does; plumbline: false.
  std::optional<bool> overlap_p2p_comm;
  /// The output layer's weight gradients of all micro-batches wait for the end of the last stage's backwards
  /// (bench/training/overlap.md).
  bool defer_embedding_wgrad_compute = false;
  std::int64_t wgrad_deferral_limit = 0;  // those of so many micro-batches; 0: of all; not plumbline's own
};

/// Context parallelism, besides its size.
struct ContextParallelConfig {
  CpCommType comm_type = CpCommType::p2p;
  HierarchicalContext hierarchical;  // of a2a+p2p
  /// Rank r of a sequence has chunks r and 2·CP-1-r of 2·CP; else the r-th of CP parts.
  bool load_balance = true;
};

/// Expert parallelism, besides its sizes.
struct ExpertParallelConfig {
  TokenDispatcher token_dispatcher = TokenDispatcher::automatic;  // automatic: as the software does
  /// The exchange of one micro-batch's tokens alongside the computation of another's.
  bool overlap_comm = false;
  bool delay_wgrad_compute = false;    // weight gradients hide an exchange, too
  bool shared_expert_overlap = false;  // or alongside that of the shared expert
};

/// Data parallelism, besides its size: states and gradients over copies of the model.
struct DataParallelConfig {
  int zero_stage = 0;
  /// With ZeRO: groups of neighbouring replicas that each hold all states, sharded within the group;
  /// gradients are also summed between groups.
  int optimizer_instances = 1;
  /// hpZ of ZeRO 3: size of the secondary parameter partition, used for all gathers of a step but a unit's
  /// first (DeepSpeed's ZeRO++, arXiv:2306.10209 section 3.2); 1: none.
  int hpz_partition_size = 1;
  /// Overlap of gradient reductions with the backwards that make them. Empty: the software's default;
  /// plumbline: true.
  std::optional<bool> overlap_grad_reduce;
  /// With ZeRO: overlap of parameter gathers with the passes that use them. Empty: the software's default;
  /// plumbline: with ZeRO 3.
  std::optional<bool> overlap_param_gather;
  /// Several chunks per pipeline rank: overlapped gathers start with the step, on every rank. Else each of
  /// them starts with its chunk's first forward. Not of plumbline's step.
  bool align_param_gather = true;
  /// With these: the first chunk's gather starts before the other chunks' update. Not of plumbline's step.
  bool gather_with_update = false;
  /// Megatron-FSDP: gathered parameters and gradients of two layers have buffers for the whole run.
  bool fsdp_double_buffer = false;
  std::int64_t bucket_size = 10'000'000;  // elements
};

/// Sizes of the parallel dimensions in ranks, and the split of the model over them. Names are Megatron-LM's,
/// without "_model_parallel_size".
struct ParallelConfig {
  int world_size = 1;
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;  // ranks that every expert is split over; 0: as tensor
  bool sequence_parallel = false;
  std::int64_t make_vocab_size_divisible_by = 128;
  TensorParallelConfig tp;
  PipelineConfig pp;
  ContextParallelConfig cp;
  ExpertParallelConfig ep;
  DataParallelConfig dp;

  /// Ranks that share one copy of the model: tensor × pipeline × context parallel size.
  std::int64_t model_ranks() const { return std::int64_t{tensor} * pipeline * context; }
  /// Data parallel size: copies of the model.
  int data() const { return static_cast<int>(world_size / model_ranks()); }
  /// Ranks that hold the same parameters, and share their states: data × context parallel size.
  int copies() const { return data() * context; }
  /// Ranks of a sequence exchange heads within groups, which are a ring.
  bool hierarchical() const { return context > 1 && cp.comm_type == CpCommType::a2a_p2p; }
  /// Number of context-parallel ranks that exchange heads: all with a2a, 1 if none do.
  int head_ranks() const {
    if (hierarchical()) return cp.hierarchical.given() ? cp.hierarchical.heads : 1;
    return cp.comm_type == CpCommType::a2a ? context : 1;
  }
  /// Ranks that every expert is split over, and ranks that hold the same part of the same experts. Experts
  /// have their own sharding over the ranks of a stage: tensor × context × data = expert tensor × expert
  /// × copies (arXiv:2504.14960).
  int effective_expert_tensor() const { return expert_tensor == 0 ? tensor : expert_tensor; }
  bool folds_experts() const { return effective_expert_tensor() != tensor; }
  int expert_copies() const {
    return static_cast<int>(world_size / (std::int64_t{pipeline} * effective_expert_tensor() * expert));
  }
  /// The ZeRO stage that is in effect: a single copy has nothing to shard.
  int effective_zero_stage() const { return copies() > 1 ? dp.zero_stage : 0; }
  /// Ranks that states are cut over.
  int state_shards() const { return copies() / dp.optimizer_instances; }
  /// Sequence parallelism needs tensor parallelism to be in effect.
  bool effective_sequence_parallel() const { return sequence_parallel && tensor > 1; }
  /// So does overlapping its collectives.
  bool effective_tp_comm_overlap() const { return tp.comm_overlap && effective_sequence_parallel(); }
  /// plumbline's own training step.
  bool effective_overlap_grad_reduce() const { return dp.overlap_grad_reduce.value_or(true); }
  bool effective_overlap_param_gather() const {
    return dp.overlap_param_gather.value_or(effective_zero_stage() == 3);
  }
  bool effective_overlap_p2p_comm() const { return pp.overlap_p2p_comm.value_or(false); }
  bool splits_vocabulary() const { return pp.vocab_parallel != VocabPasses::none; }
  /// Ranks that the vocabulary is split over.
  int vocab_shards() const { return tensor * (splits_vocabulary() ? pipeline : 1); }
};

}  // namespace plumbline
