// Memory of task `generate` on a rank.
#pragma once

#include <vector>

#include "core/base/units.hpp"
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

}  // namespace plumbline
