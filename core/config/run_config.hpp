// One configuration of a training run. Key names are Megatron-LM's with underscores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "core/config/model_config.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/vocab_passes.hpp"
#include "core/tensor/dtype.hpp"

namespace plumbline {

enum class Recompute { none, selective, full };
enum class Backend { cpu, cuda, emulated };
enum class AttentionBackend { fused, unfused };  // unfused: keeps the probabilities of every head
enum class Optimizer { adam, sgd };
enum class GradDType { fp32, same };
enum class Fp8Format { none, e4m3, hybrid };       // hybrid: gradients in E5M2, all else in E4M3
enum class Fp8Recipe { delayed, tensorwise };      // scales from earlier steps, or from the tensor itself
enum class DistillationKl { forward, reverse };    // KL(teacher ‖ student), KL(student ‖ teacher)
enum class DistillationLoss { fused, unfused };    // in place, or separate fp32 tensors
enum class DistillationCache { logits, hidden };   // what is kept of a teacher's output until the loss
enum class DistillationCacheDType { same, fp32 };  // of kept logits

struct RunConfig {
  ModelConfig model;
  std::string hardware;  // preset or profile file; empty: this machine's calibrated profile
  Backend backend = Backend::cpu;
  int world_size = 1;
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int virtual_pipeline_chunks = 1;  // 1: as many as the schedule has by itself
  int context_parallel_size = 1;
  int expert_model_parallel_size = 1;
  bool sequence_parallel = false;
  /// none; vocab-1, vocab-2, interlaced: embedding and output layer are cut over all ranks of the model.
  VocabPasses vocab_parallel = VocabPasses::none;
  std::string layer_distribution = "even";  // see core/config/layer_distribution.hpp
  std::string pipeline_schedule = "1f1b";
  int zero_stage = 0;
  Recompute recompute_granularity = Recompute::none;
  /// Full recomputation: so many layers are recomputed together, and only the input of the first is kept.
  std::int64_t recompute_num_layers = 1;
  AttentionBackend attention_backend = AttentionBackend::fused;
  /// Probability of dropping an element of the embedding's output and of what attention and MLP add to the
  /// residual stream; of dropping an attention probability.
  double hidden_dropout = 0;
  double attention_dropout = 0;
  /// Off: the loss works on an fp32 copy of 16-bit logits, as Megatron-LM's does by default.
  bool cross_entropy_loss_fusion = true;
  std::int64_t seq_length = 1024;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  DType precision = DType::bf16;
  /// Linear layers in eight bits, beside `precision` (bench/training/fp8.md).
  Fp8Format fp8_format = Fp8Format::none;
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  int fp8_margin = 0;                        // scales leave room for so many doublings
  std::int64_t fp8_amax_history_len = 1024;  // steps that a delayed scale looks back on
  GradDType grad_dtype = GradDType::fp32;
  Optimizer optimizer = Optimizer::adam;
  double learning_rate = 1e-4;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // global norm; 0 = off
  std::int64_t make_vocab_size_divisible_by = 128;
  std::int64_t ddp_bucket_size = 10'000'000;  // elements
  Bytes memory_budget;                        // per rank; 0 = no bound
  int steps = 3;                              // timed steps of `run`
  int warmup_steps = 1;
  double timeout_s = 300;
  /// Emulated backend: seconds that pass for each second of the hardware profile; 0 = as fast as possible.
  double emulated_time_factor = 1;
  std::uint64_t seed = 1234;
  std::string weights;  // folder of a Hugging Face checkpoint; empty: seeded random
  std::string data;     // token ids, .npy or raw int32; empty: seeded synthetic
  std::string save_gradients;
  std::string save_weights;
  std::optional<ModelConfig> teacher;  // distillation: the model that is only evaluated
  std::string teacher_weights;         // as `weights`, for the teacher
  std::string distillation_schedule = "abeja";
  double distillation_temperature = 1;
  DistillationKl distillation_kl = DistillationKl::forward;
  double distillation_lm_weight = 0;  // of the language-model loss; the divergence has the rest of 1
  DistillationLoss distillation_loss = DistillationLoss::fused;
  DistillationCache distillation_cache = DistillationCache::logits;
  DistillationCacheDType distillation_cache_dtype = DistillationCacheDType::same;
  /// bubble-fill: teacher outputs that may be kept at once; 0 = as many as the memory budget allows.
  std::int64_t distillation_cache_limit = 0;
  std::string loss_mask;  // one byte 0 or 1 per token of `data`; empty: every token counts

  Layout layout() const;
  /// Ranks that share one copy of the model: tensor × pipeline × context parallel size.
  std::int64_t model_ranks() const;
  int data_parallel_size() const;
  /// Micro-batches per data-parallel replica and step.
  int microbatches() const;
  /// The ZeRO stage that is in effect: with one data-parallel replica there is nothing to cut.
  int effective_zero_stage() const { return data_parallel_size() > 1 ? zero_stage : 0; }
  /// Sequence parallelism is in effect only beside tensor parallelism.
  bool effective_sequence_parallel() const { return sequence_parallel && tensor_model_parallel_size > 1; }
  DType grad_type() const { return grad_dtype == GradDType::fp32 ? DType::fp32 : precision; }
  /// The loss keeps an fp32 copy of the logits: with 16-bit storage and without fusion.
  bool loss_in_fp32() const { return !cross_entropy_loss_fusion && precision != DType::fp32; }
  bool fp8() const { return fp8_format != Fp8Format::none; }
  bool splits_vocabulary() const { return vocab_parallel != VocabPasses::none; }
  /// Ranks that the vocabulary is cut over.
  int vocab_shards() const {
    return tensor_model_parallel_size * (splits_vocabulary() ? pipeline_model_parallel_size : 1);
  }
  /// The vocabulary padded to a multiple of make_vocab_size_divisible_by × vocab_shards().
  std::int64_t padded_vocab() const;
};

}  // namespace plumbline
