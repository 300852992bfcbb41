#include "bench/training/shape.hpp"

#include <algorithm>
#include <numeric>

namespace plumbline::training {

StagePart part_of(const RunConfig& config, int stage, int tensor_rank) {
  const int stages = config.pipeline_model_parallel_size * config.virtual_pipeline_chunks;
  const std::vector<int> layers = layers_per_stage(config.model.layers, stages);
  StagePart part;
  part.stage = stage;
  part.stages = stages;
  part.first_layer = std::accumulate(layers.begin(), layers.begin() + stage, std::int64_t{0});
  part.layers = layers[static_cast<std::size_t>(stage)];
  part.tensor_rank = tensor_rank;
  part.tensor_size = config.tensor_model_parallel_size;
  return part;
}

StageShape::StageShape(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t t = config.tensor_model_parallel_size;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  tokens = config.micro_batch_size * config.seq_length;
  hidden = model.hidden;
  query = model.heads / t * model.head_dim;
  key = kv_heads * model.head_dim;
  qkv = query + 2 * key;
  ffn = model.ffn / t;
  fc1 = model.activation == Activation::swiglu ? 2 * ffn : ffn;
  vocab = config.padded_vocab() / t;
  norm_stats = model.norm == Norm::rms ? 1 : 2;
  attention = {config.micro_batch_size, config.seq_length, model.heads / t, kv_heads, model.head_dim};
}

}  // namespace plumbline::training
