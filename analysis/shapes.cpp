#include "analysis/shapes.hpp"

#include <algorithm>

namespace plumbline {

std::vector<StageShape> stage_shapes(const RunConfig& config, int stages) {
  const ModelConfig& model = config.model;
  const int t = config.tensor_model_parallel_size;
  StageShape shape;
  shape.batch = config.micro_batch_size;
  shape.seq = config.seq_length;
  shape.tokens = shape.batch * shape.seq;
  shape.hidden = model.hidden;
  shape.head_dim = model.head_dim;
  shape.heads = model.heads / t;
  shape.kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  shape.q = shape.heads * shape.head_dim;
  shape.k = shape.kv_heads * shape.head_dim;
  shape.ffn = model.ffn / t;
  shape.swiglu = model.activation == Activation::swiglu;
  shape.fc1 = shape.swiglu ? 2 * shape.ffn : shape.ffn;
  shape.vocab = config.padded_vocab() / t;
  shape.rotary = model.positions == Positions::rotary;
  shape.positions = shape.rotary ? 0 : model.max_positions;
  shape.layer_norm = model.norm == Norm::layer;
  shape.norm_rows = shape.layer_norm ? 2 : 1;
  shape.norm_vectors = shape.layer_norm ? 2 : 1;
  shape.tied = model.tied_embeddings;
  shape.qkv_bias = model.qkv_bias;
  shape.linear_bias = model.linear_bias;
  shape.shared_kv = model.kv_heads < t;
  shape.tensor = t;
  shape.type = config.precision;
  shape.grad_type = config.grad_type();
  shape.single = stages == 1;

  const std::vector<int> layers = layers_per_stage(model.layers, stages);
  std::vector<StageShape> shapes(static_cast<std::size_t>(stages), shape);
  for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i].layers = layers[i];
  shapes.front().first = true;
  shapes.back().last = true;
  return shapes;
}

std::int64_t parameters_per_layer(const StageShape& s) {
  const std::int64_t norms = 2 * s.norm_vectors * s.hidden;
  const std::int64_t qkv = (s.q + 2 * s.k) * (s.hidden + (s.qkv_bias ? 1 : 0));
  const std::int64_t projection = s.hidden * s.q + (s.linear_bias ? s.hidden : 0);
  const std::int64_t fc1 = s.fc1 * (s.hidden + (s.linear_bias ? 1 : 0));
  const std::int64_t fc2 = s.hidden * s.ffn + (s.linear_bias ? s.hidden : 0);
  return norms + qkv + projection + fc1 + fc2;
}

StageParameters parameters_of(const StageShape& s) {
  StageParameters parameters;
  parameters.layers = s.layers * parameters_per_layer(s);
  if (s.first) {
    parameters.embedding = s.vocab * s.hidden;
    parameters.positions = s.positions * s.hidden;
  }
  if (s.last) {
    parameters.final_norm = s.norm_vectors * s.hidden;
    if (!(s.tied && s.single)) parameters.output = s.vocab * s.hidden;
  }
  return parameters;
}

}  // namespace plumbline
