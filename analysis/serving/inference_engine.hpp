// Software that serves models: the parts of it that the prediction of task `generate` knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Tokens that an engine prefills in a pass: max_num_batched_tokens of vLLM's offline use (vllm/engine/
/// arg_utils.py), TensorRT-LLM's max_num_tokens (docs), SGLang's chunked_prefill_size on devices of 80 GB.
inline constexpr std::int64_t kEnginePassTokens = 8192;
/// The same, or as the configuration says.
inline std::int64_t engine_pass_tokens(const RunConfig& config) {
  return config.generation.pass_tokens > 0 ? config.generation.pass_tokens : kEnginePassTokens;
}

/// Host of an engine, behind which its GPUs wait.
struct EngineHost {
  double step_s = 0;      // between two decoding steps, for one sequence
  double sequence_s = 0;  // the same for each sequence
  double launch_s = 0;    // a kernel of a prefill; 0: in CUDA graphs, or not behind the GPU
};

struct InferenceEngine {
  std::string_view name;           // a value of the key software (core/config/generation_config.hpp)
  bool batched_attention = false;  // one kernel for all sequences, which also writes the cache
  std::int64_t block_tokens = 1;   // of the paged KV cache: a sequence has whole blocks
  double memory_share = 1;         // of the device that it may use
  bool of_free = false;   // the share is of the memory besides weights and activations, for the cache
  bool reserves = false;  // the share is what sglang_reserve() leaves, of which the workspace is no part
  EngineHost host{};
};

/// Names of those that are no frameworks for training.
std::vector<std::string> inference_engine_names();

/// plumbline's own for every other name.
const InferenceEngine& inference_engine(std::string_view software);

/// Memory that SGLang leaves for activations and CUDA graphs by default, on a device of `memory`;
/// `gpus`: tensor times pipeline ranks.
Bytes sglang_reserve(Bytes memory, int gpus);

/// Bytes that the engine of `config` leaves for the cache of a rank with `limit` of memory. `share`: the
/// memory share that was set; 0: the engine's default.
double room_for_cache(const RunConfig& config, double share, Bytes limit, Bytes parameters, Bytes workspace);

}  // namespace plumbline
