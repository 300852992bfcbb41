// Memory of task `generate` on a rank.
#include <algorithm>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/predict/generation.hpp"
#include "analysis/serving/generation_pricing.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "analysis/serving/kv_cache.hpp"
#include "analysis/step/stage_shapes.hpp"

namespace plumbline {
namespace {

/// The batch that a prefill has at once: an engine cuts prompts into passes.
RunConfig prefilled_at_once(RunConfig config) {
  const std::int64_t prompts = std::max<std::int64_t>(1, engine_pass_tokens(config) / config.prompt_tokens());
  config.batch.micro_batch_size = std::min(config.batch.micro_batch_size, prompts);
  return config;
}

/// Layers that keep nothing, and the embedding.
Bytes layers_of(StageShape pass) {
  pass.distillation.on = pass.distillation.hidden = true;
  return action_profile(pass, ActionType::teacher_forward, false).peak.total();
}

/// `shape`: of a pass of some prompts. A decoding step has logits of all sequences.
GenerationMemory engine_memory(const RunConfig& config, const StageShape& shape) {
  const RunConfig pass = generation_pass(prefilled_at_once(config), config.prompt_tokens());
  const MemoryBreakdown held = held_bytes(shape, pass);
  const std::int64_t logits =
      shape.place.last ? config.batch.micro_batch_size * shape.ends.vocab * shape.numerics.e() : 0;
  GenerationMemory rank;
  rank.parameters = held[Category::parameters];
  rank.held = held[Category::workspace] + held[Category::communication];
  rank.workspace = rank.held + layers_of(shape) + Bytes{logits};
  return rank;
}

/// From the last tokens' rows to the ids, beside `stream`, which is freed behind the rows.
std::int64_t last_tokens(const StageShape& pass, std::int64_t sequences, bool draws, std::int64_t stream) {
  const std::int64_t rows = sequences * pass.stream.hidden * pass.numerics.e();
  const std::int64_t statistics = 4 * pass.block.norm_rows * sequences;
  const std::int64_t logits = 4 * sequences * pass.ends.outputs;
  const std::int64_t chosen = draws ? 0 : 12 * sequences;  // three numbers each
  const std::int64_t gathered =
      pass.sharding.tensor > 1 ? pass.sharding.tensor * (draws ? logits : chosen) : 0;
  return std::max({stream + rows + 4 * sequences, 2 * rows + statistics + logits,
                   logits + std::max(chosen + gathered, 4 * sequences)});
}

/// `pass`: of all prompts.
GenerationMemory own_memory(const RunConfig& config, StageShape pass) {
  const RunConfig whole = generation_pass(config, config.batch.seq_length);
  const StageShape shape =
      stage_shapes(whole, config.parallel.pipeline)[static_cast<std::size_t>(pass.place.stage)];
  const MemoryBreakdown held = held_bytes(shape, whole);
  // Tokens of micro-batches and buffers for messages are a training step's alone.
  const int ids = (pass.place.first ? 1 : 0) + (pass.place.last ? 1 : 0) + 2 * pass.own_modules();
  GenerationMemory rank;
  rank.parameters = held[Category::parameters];
  rank.held = held[Category::workspace] - Bytes{shape.stream.tokens * ids * 4};
  const std::int64_t tokens = pass.stream.tokens;
  const std::int64_t tables = 4 * tokens * (1 + pass.attention.rotated);  // positions, cos, sin
  const std::int64_t stream = tokens * pass.stream.hidden * pass.numerics.e();
  const bool first = pass.place.first, last = pass.place.last;
  // Every layer has a tensor for its output; only the last tokens are normed.
  pass.place.last = false;
  pass.place.next_here = true;
  std::int64_t most = layers_of(pass).value + (first ? 0 : stream);
  if (first) most = std::max(most, stream + 4 * tokens);  // ids
  if (last)
    most = std::max(most, last_tokens(pass, config.batch.micro_batch_size, config.generation.draws, stream));
  rank.workspace = rank.held + Bytes{tables + most};
  return rank;
}

}  // namespace

std::int64_t cached_tokens_per_sequence(const RunConfig& config) {
  const std::int64_t block = inference_engine(config.machine.software).block_tokens;
  return (config.batch.seq_length + block - 1) / block * block;
}

std::vector<GenerationMemory> generation_memory(const RunConfig& config) {
  const bool engine = is_inference_engine(config.machine.software);
  const RunConfig batch = engine ? prefilled_at_once(config) : config;
  std::vector<GenerationMemory> ranks;
  for (const StageShape& shape : generation_shapes(batch, config.prompt_tokens())) {
    GenerationMemory rank = engine ? engine_memory(config, shape) : own_memory(config, shape);
    rank.pipeline_rank = static_cast<int>(ranks.size());
    rank.cache =
        kv_cache_bytes(shape, config.batch.micro_batch_size, cached_tokens_per_sequence(config), engine);
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace plumbline
