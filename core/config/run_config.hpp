// One configuration of a training run, by topic. A function takes the part it needs.
// The keys that users write are those of core/config_text/config_keys.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/units.hpp"
#include "core/config/distillation_config.hpp"
#include "core/config/finetune_config.hpp"
#include "core/config/model_config.hpp"
#include "core/config/numerics_config.hpp"
#include "core/config/parallel_config.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

enum class Backend { cpu, cuda, emulated };
/// Who captures a software's layers as CUDA graphs (Megatron-LM's --cuda-graph-impl): itself or Transformer Engine.
enum class CudaGraphImpl { none, local, transformer_engine };
/// "local".
constexpr std::string_view cuda_graph_impl_name(CudaGraphImpl impl) {
  return impl == CudaGraphImpl::none ? "none" : impl == CudaGraphImpl::local ? "local" : "transformer_engine";
}

struct BatchConfig {
  std::int64_t seq_length = 1024;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  /// The first tokens of every sequence, which attention lets see each other: a prefix language model. 0: causal.
  std::int64_t prefix_length = 0;
};

/// What it runs on.
struct MachineConfig {
  std::string hardware;                // preset or profile file; empty: this machine's calibrated profile
  std::string software = "plumbline";  // whose training step is predicted; only plumbline's is also executed
  CudaGraphImpl cuda_graph_impl = CudaGraphImpl::none;
  Backend backend = Backend::cpu;
  Bytes memory_budget;  // per rank; 0: no bound
  /// Emulated backend: seconds that pass for each second of the hardware profile; 0: as fast as possible.
  double emulated_time_factor = 1;
};

/// What `run` measures.
struct MeasureConfig {
  int steps = 3;  // timed steps
  int warmup_steps = 1;
  double timeout_s = 300;
  std::uint64_t seed = 1234;
};

struct FilesConfig {
  std::string weights;    // folder of a Hugging Face checkpoint; empty: seeded random
  std::string data;       // token ids, .npy or raw int32; empty: seeded synthetic
  std::string loss_mask;  // one byte 0 or 1 per token of `data`; empty: every token counts
  std::string save_gradients;
  std::string save_weights;
  std::string save_routing;  // of a mixture of experts
};

struct RunConfig {
  ModelConfig model;
  ParallelConfig parallel;
  BatchConfig batch;
  NumericsConfig numerics;
  MixtureConfig mixture;
  RecomputeConfig recompute;
  OptimizerConfig optimizer;
  FinetuneConfig finetune;
  DistillationConfig distillation;
  MachineConfig machine;
  MeasureConfig measure;
  FilesConfig files;

  Layout layout() const;
  /// Micro-batches per data-parallel replica and step.
  int microbatches() const;
  /// The vocabulary padded to a multiple of make_vocab_size_divisible_by × vocab_shards().
  std::int64_t padded_vocab() const;
};

}  // namespace plumbline
