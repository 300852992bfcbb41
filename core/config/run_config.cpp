#include "core/config/run_config.hpp"

namespace plumbline {

std::int64_t RunConfig::model_ranks() const {
  return std::int64_t{tensor_model_parallel_size} * pipeline_model_parallel_size * context_parallel_size;
}

int RunConfig::data_parallel_size() const {
  return static_cast<int>(world_size / model_ranks());
}

Layout RunConfig::layout() const {
  Layout layout;
  layout.tensor = tensor_model_parallel_size;
  layout.pipeline = pipeline_model_parallel_size;
  layout.data = data_parallel_size();
  layout.vocab_parallel = splits_vocabulary();
  if (model.kv_heads > 0 && model.kv_heads < layout.tensor) {
    layout.kv_sharing = layout.tensor / static_cast<int>(model.kv_heads);
  }
  return layout;
}

int RunConfig::microbatches() const {
  return static_cast<int>(global_batch_size / (micro_batch_size * data_parallel_size()));
}

std::int64_t RunConfig::padded_vocab() const {
  const std::int64_t multiple = make_vocab_size_divisible_by * vocab_shards();
  return (model.vocab + multiple - 1) / multiple * multiple;
}

}  // namespace plumbline
