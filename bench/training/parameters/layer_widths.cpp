#include "bench/training/parameters/layer_widths.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::training {

LayerWidths::LayerWidths(const RunConfig& config)
    : LayerWidths(config, config.batch.micro_batch_size, config.batch.seq_length / config.parallel.context) {}

LayerWidths::LayerWidths(const RunConfig& config, std::int64_t sequences, std::int64_t seq) {
  const ModelConfig& model = config.model;
  const std::int64_t t = config.parallel.tensor;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  tokens = sequences * seq;
  rows = config.parallel.effective_sequence_parallel() ? tokens / t : tokens;
  hidden = model.hidden;
  query = model.heads / t * model.head_dim;
  key = kv_heads * model.head_dim;
  value = kv_heads * model.value_dim();
  attended = model.heads / t * model.value_dim();
  qkv = query + key + value;
  const std::int64_t projections = is_gated(model.activation) ? 2 : 1;
  ffn = model.dense_ffn() / t;
  fc1 = projections * ffn;
  query_rank = model.latent.query_rank;
  kv_rank = model.latent.kv_rank;
  rotated = model.latent.rope_dim;
  compressed = query_rank + kv_rank + rotated;
  own_keys = model.heads / t * model.latent.nope_dim;
  expert_ffn = model.mixture ? model.ffn / config.parallel.effective_expert_tensor() : 0;
  expert_fc1 = projections * expert_ffn;
  experts = model.mixture.experts;
  choices = tokens * model.mixture.top_k;
  spread = config.spreads_experts();
  folded = spread && config.parallel.folds_experts();
  local = spread ? experts / config.parallel.expert : experts;
  sent = folded ? rows * model.mixture.top_k : choices;
  slices = folded ? config.parallel.effective_expert_tensor() : 1;
  shared = model.mixture.shared / t;
  vocab = config.padded_vocab() / config.parallel.vocab_shards();
  norm_stats = model.norms.kind == Norm::rms ? 1 : 2;
  attention = {sequences, seq, model.heads / t, kv_heads, model.head_dim};
  attention.value_dim = model.latent.value_dim;
  attention.prefix = config.batch.prefix_length;
  if (model.position.kind == Positions::alibi) {
    attention.alibi.heads = model.heads;
    if (model.position.alibi_scaled)
      attention.alibi.factor = 1 / std::sqrt(static_cast<double>(model.head_dim));
  }
}

}  // namespace plumbline::training
