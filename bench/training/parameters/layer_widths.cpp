#include "bench/training/parameters/layer_widths.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::training {

LayerWidths::LayerWidths(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t t = config.parallel.tensor;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  tokens = config.batch.micro_batch_size * config.batch.seq_length / config.parallel.context;
  rows = config.parallel.effective_sequence_parallel() ? tokens / t : tokens;
  hidden = model.hidden;
  query = model.heads / t * model.head_dim;
  key = kv_heads * model.head_dim;
  qkv = query + 2 * key;
  ffn = model.ffn / t;
  fc1 = is_gated(model.activation) ? 2 * ffn : ffn;
  experts = model.mixture.experts;
  choices = tokens * model.mixture.top_k;
  shared = model.mixture.shared / t;
  vocab = config.padded_vocab() / config.parallel.vocab_shards();
  norm_stats = model.norm == Norm::rms ? 1 : 2;
  attention = {config.batch.micro_batch_size, config.batch.seq_length / config.parallel.context,
               model.heads / t, kv_heads, model.head_dim};
  attention.prefix = config.batch.prefix_length;
  if (model.positions == Positions::alibi) {
    attention.alibi.heads = model.heads;
    if (model.alibi_scaled) attention.alibi.factor = 1 / std::sqrt(static_cast<double>(model.head_dim));
  }
}

}  // namespace plumbline::training
