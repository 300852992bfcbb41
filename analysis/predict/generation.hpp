// Prediction of task `generate`: memory of a rank, time of prefill and decoding, throughput.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/stage/cost_lines.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Tensors of a rank, the same on all tensor and data-parallel ranks of a pipeline coordinate.
struct GenerationMemory {
  int pipeline_rank = 0;
  Bytes parameters;  // in the storage type; there are no gradients and no optimizer states
  Bytes cache;       // keys and values of micro_batch_size sequences of seq_length tokens, every layer
  Bytes held;        // of the workspace, what stays between passes
  Bytes workspace;   // the rest at its peak: a prefill's largest layer, logits, tables, scratch
  Bytes total() const { return parameters + cache + workspace; }
};

/// Tokens of a sequence that the cache has room for: seq_length, of an engine in whole blocks.
std::int64_t cached_tokens_per_sequence(const RunConfig& config);

/// Memory by pipeline rank. plumbline's own is to the byte (bench/training/generate): a pass of all prompts
/// is the largest one. An engine's pass is of kEnginePassTokens at most.
std::vector<GenerationMemory> generation_memory(const RunConfig& config);

/// A decoding step: one token for every sequence.
struct DecodeTime {
  std::int64_t length = 0;  // tokens of a sequence that attention sees
  Seconds step;
  /// Bytes of parameters and cache that a step reads, over the memory bandwidth of the profile: no step is
  /// faster. Summed over the stages.
  Seconds bound;
};

struct GenerationTime {
  Seconds prefill;                 // of prompt_tokens() tokens of every sequence: the time to the first token
  std::vector<DecodeTime> decode;  // at the first, the middle and the last length; empty for one new token
  Seconds decode_mean;             // of a step, over all lengths
  Seconds total;                   // prefill and max_new_tokens - 1 steps
};

struct GenerationThroughput {
  double tokens_per_s = 0;  // new tokens of all replicas, prefill included
  double tokens_per_s_per_gpu = 0;
  double decode_tokens_per_s = 0;  // while decoding
};

struct GenerationPrediction {
  std::vector<GenerationMemory> ranks;  // by pipeline rank
  int peak_rank = 0;                    // pipeline rank with the highest total
  Bytes limit;                          // memory_budget, else the device's memory; 0: no bound
  bool fits = true;
  /// Tokens of all sequences that an inference engine's cache has room for by its default settings, while
  /// the rest of the memory is as for this batch. Windows count as in the configuration's sequences. 0: not
  /// known.
  std::int64_t cache_tokens = 0;
  GenerationTime time;
  GenerationThroughput throughput;
  bool guessed = false;         // HardwareProfile::guessed()
  std::vector<CostLine> lines;  // phases "prefill", and "decode" at its middle length
};

/// One decoding step of a replica with `sequences` live ones, each of which attends to `length` tokens,
/// its own included: for rollouts whose sequences end one by one. `config`: task generate; its batch and
/// lengths do not matter but for prompt_tokens(), whose workspace a processor's caches hold. Throws
/// InputError as predict_generation(), and for less than 1 sequence or 2 tokens.
DecodeTime decode_step(const RunConfig& config, const HardwareProfile& hardware, std::int64_t sequences,
                       std::int64_t length);

/// The replica works on one batch: its pipeline ranks compute one after the other. Throws InputError for
/// what why_generation_invalid() or the profile refuses.
GenerationPrediction predict_generation(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
