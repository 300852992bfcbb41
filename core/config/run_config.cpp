#include "core/config/run_config.hpp"

namespace plumbline {

Layout RunConfig::layout() const {
  Layout layout;
  layout.tensor = parallel.tensor;
  layout.pipeline = parallel.pipeline;
  layout.data = parallel.copies();
  layout.context = parallel.context;
  if (parallel.hierarchical()) layout.context_heads = parallel.head_ranks();
  if (spreads_experts()) layout.expert = parallel.expert;
  if (spreads_experts() && parallel.folds_experts()) layout.expert_tensor = parallel.expert_tensor;
  layout.vocab_parallel = parallel.splits_vocabulary();
  if (model.kv_heads > 0 && model.kv_heads < layout.tensor) {
    layout.kv_sharing = layout.tensor / static_cast<int>(model.kv_heads);
  }
  return layout;
}

int RunConfig::microbatches() const {
  return static_cast<int>(batch.global_batch_size / (batch.micro_batch_size * parallel.data()));
}

std::int64_t RunConfig::padded_vocab() const {
  const std::int64_t multiple = parallel.make_vocab_size_divisible_by * parallel.vocab_shards();
  return (model.vocab + multiple - 1) / multiple * multiple;
}

}  // namespace plumbline
