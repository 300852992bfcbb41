// One configuration of a training run, by topic. A function takes the part it needs.
// The keys that users write are those of core/config_text/config_keys.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/config/distillation_config.hpp"
#include "core/config/finetune_config.hpp"
#include "core/config/generation_config.hpp"
#include "core/config/model_config.hpp"
#include "core/config/numerics_config.hpp"
#include "core/config/optimizer_config.hpp"
#include "core/config/parallel_config.hpp"
#include "core/config/recompute_config.hpp"
#include "core/config/reinforcement_config.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

enum class Backend { cpu, cuda, emulated };
/// Time of an emulated rank: the host's, slept through, or a clock that only its work and its waiting
/// advance.
enum class EmulatedTime { real, virtual_time };

/// CUDA-graph capture of the predicted framework (Megatron-LM's --cuda-graph-impl): layers, by the framework
/// itself or by Transformer Engine, or a whole step.
enum class CudaGraphImpl { none, local, transformer_engine, full_iteration };
/// "local".
constexpr std::string_view cuda_graph_impl_name(CudaGraphImpl impl) {
  constexpr std::string_view kNames[] = {"none", "local", "transformer_engine", "full_iteration"};
  return kNames[static_cast<std::size_t>(impl)];
}

/// Calls for conversations of one length.
struct PackedLength {
  std::int64_t tokens = 0;
  double count = 0;  // per sequence, on average
  int ranks = 1;     // that split it, with dynamic_context_parallel
  friend bool operator==(const PackedLength&, const PackedLength&) = default;
};

/// Micro-batches in which a rank shares its conversations with others: their ring.
struct PackedRing {
  int ranks = 1;
  double count = 0;  // per sequence, on average
  friend bool operator==(const PackedRing&, const PackedRing&) = default;
};

/// Attention work of packed documents, as a share of the token pairs of whole causal sequences
/// (analysis/predict/packed_sequences.hpp). Predictions only.
struct PackedAttention {
  double mean = 1;     // over all ranks
  double slowest = 1;  // of the ranks that the others wait for, relative to whole sequences
  /// With packed_sequence, whose step attends conversation by conversation; empty: one call for all.
  std::vector<PackedLength> lengths;
  // With dynamic_context_parallel.
  std::vector<PackedRing> rings;
  double waiting = 1;  // work of the ranks that wait for each other, one after another, relative to `slowest`
  bool on() const { return mean < 1; }
};

struct BatchConfig {
  std::int64_t seq_length = 1024;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  /// Number of tokens at the start of every sequence that see each other: a prefix language model. 0: causal.
  std::int64_t prefix_length = 0;
  /// Several conversations make a sequence; attention and positions are those of each (task sft).
  bool packed_sequence = false;
  /// With packed_sequence: conversations are split over as many context ranks as they need, by their lengths
  /// (core/files/context_packs.hpp).
  bool dynamic_context_parallel = false;
  /// Images of a sequence, which a model's vision tower reads; 0: text alone. Tokens of one, behind the
  /// merger: 256 · 256 pixels in patches of 16 · 16, four a token, as Megatron-Bridge's synthetic data have
  /// (NVIDIA-NeMo/Megatron-Bridge@067f987 src/megatron/bridge/data/builders/mock_vlm_sft.py).
  std::int64_t images_per_sequence = 0;
  std::int64_t image_tokens = 64;
  PackedAttention packed{};  // no key: of packed_sequence, or of `predict --sequence-lengths`
};

/// Machine of a run.
struct MachineConfig {
  std::string hardware;                // preset or profile file; empty: this machine's calibrated profile
  std::string software = "plumbline";  // whose training step is predicted
  /// True for this program's own step, the only one that is executed.
  bool own_step() const { return software == "plumbline"; }
  CudaGraphImpl cuda_graph_impl = CudaGraphImpl::none;
  /// Parts of a layer that are captured: all, or names such as attn,moe_router (Megatron-LM's
  /// --cuda-graph-scope).
  std::string cuda_graph_modules = "all";
  Backend backend = Backend::cpu;
  Bytes memory_budget;  // per rank; 0: no bound
  /// Backend cuda: tensors lie in memory that NCCL's communicators have registered (Megatron-LM's
  /// --use-nccl-ub).
  bool nccl_ub = false;
  /// Emulated backend: seconds that pass for each second of the hardware profile; 0: as fast as possible.
  double emulated_time_factor = 1;
  EmulatedTime emulated_clock = EmulatedTime::real;
};

/// A rank that is made to compute longer, to test its detection.
struct SlowedRank {
  int rank = 0;
  double factor = 1;
};

/// Settings of a measurement by `run`.
struct MeasureConfig {
  int steps = 3;  // timed steps
  int warmup_steps = 1;
  /// Seconds that a run may take; nothing: derived from its prediction (derived_timeout()).
  std::optional<double> timeout_s;
  std::uint64_t seed = 1234;
  std::vector<SlowedRank> slow_ranks;  // predictions leave them out

  /// Artificial slowdown factor of a rank's computation.
  double slowdown_of(int rank) const {
    for (const SlowedRank& slowed : slow_ranks)
      if (slowed.rank == rank) return slowed.factor;
    return 1;
  }
};

struct FilesConfig {
  std::string weights;    // folder of a Hugging Face checkpoint; empty: seeded random
  std::string data;       // token ids, .npy or raw int32, or chats with task sft; empty: seeded synthetic
  std::string loss_mask;  // one byte 0 or 1 per token of `data`; empty: every token counts
  std::string save_gradients;
  std::string lora_weights;
  std::string save_weights;
  std::string save_routing;  // of an MoE model
};

/// Weight of the MTP modules' losses (ModelConfig::prediction_modules): their mean times this is added to the
/// loss (Megatron-LM's --mtp-loss-scaling-factor; λ of arXiv:2412.19437 eq. 25).
struct PredictionConfig {
  double loss_scaling_factor = 0.1;
  bool repeated = false;      // one for every token ahead (Megatron-Core, multi_token_prediction.py); not own
  bool keep_in_bf16 = false;  // their linear layers, where others are in FP8 or FP4; not plumbline's own
};

struct RunConfig {
  ModelConfig model;
  PredictionConfig prediction;
  ParallelConfig parallel;
  BatchConfig batch;
  NumericsConfig numerics;
  MixtureConfig mixture;
  RecomputeConfig recompute;
  OffloadConfig offload;
  OptimizerConfig optimizer;
  FinetuneConfig finetune;
  GenerationConfig generation;
  DistillationConfig distillation;
  ReinforcementConfig reinforcement;
  MachineConfig machine;
  MeasureConfig measure;
  FilesConfig files;

  Layout layout() const;
  /// The data are chats (core/files/chat_data.hpp).
  bool fine_tunes() const { return generation.task == RunTask::sft; }
  /// A step is rollout, scoring, advantages, updates and refit.
  bool has_critic() const { return generation.task == RunTask::ppo; }
  bool reinforces() const { return generation.task == RunTask::grpo || generation.task == RunTask::ppo; }
  /// Ranks that train, and a rollout's own.
  int ranks() const { return parallel.world_size + (reinforces() ? reinforcement.rollout.world : 0); }
  /// Experts of a layer are on several ranks of plumbline's own training step, or cut otherwise than all else
  /// (bench/training/expert_parallel.md).
  bool spreads_experts() const { return spreads_experts_of(model); }
  /// The same for a teacher's, over the same ranks.
  bool spreads_teacher_experts() const {
    return distillation.teacher && spreads_experts_of(*distillation.teacher);
  }
  bool spreads_experts_of(const ModelConfig& of) const {
    return of.mixture && machine.own_step() && (parallel.expert > 1 || parallel.folds_experts());
  }
  /// Limit for an expert's rows, from the tokens of a rank's micro-batch; 0: no limit (Megatron-LM,
  /// get_capacity).
  std::int64_t expert_capacity() const;
  /// Micro-batches per data-parallel replica and step.
  int microbatches() const;
  /// Tokens of the longest prompt of task generate.
  std::int64_t prompt_tokens() const;
  /// The vocabulary padded to a multiple of make_vocab_size_divisible_by × vocab_shards().
  std::int64_t padded_vocab() const;
};

}  // namespace plumbline
