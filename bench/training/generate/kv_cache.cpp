#include "bench/training/generate/kv_cache.hpp"

#include <algorithm>

namespace plumbline::generation {
namespace {

using training::QueryKeyValue;

std::int64_t kept_tokens(const RunConfig& config, std::int64_t layer) {
  const std::int64_t window = config.model.window_of(layer);
  return window > 0 ? std::min(window, config.batch.seq_length) : config.batch.seq_length;
}

}  // namespace

void KeyValueCache::allocate(std::int64_t layers) {
  layers_.reserve(static_cast<std::size_t>(layers));
  for (std::int64_t layer = first_layer_; layer < first_layer_ + layers; ++layer) {
    const std::int64_t rows = kept_tokens(context_.config, layer);
    const std::int64_t all = context_.config.batch.micro_batch_size * rows;
    layers_.push_back({rows, context_.make(kCacheCategory, "key cache", all, context_.shape.key),
                       context_.make(kCacheCategory, "value cache", all, context_.shape.value)});
  }
}

void KeyValueCache::store(std::int64_t layer, const SequenceRows& rows, const QueryKeyValue& in) const {
  const std::int64_t capacity = of(layer).rows;
  // Later tokens never see the ones before the last `capacity`. Neighbours in the cache are copied at once.
  std::int64_t position = rows.past + std::max<std::int64_t>(0, rows.count - capacity);
  while (position < rows.past + rows.count) {
    const std::int64_t to = position % capacity;
    const std::int64_t count = std::min(capacity - to, rows.past + rows.count - position);
    const std::int64_t from = rows.row + position - rows.past;
    context_.operators.copy(in.k.row_range(from, count),
                            keys(layer, rows.slot, capacity).row_range(to, count));
    context_.operators.copy(in.v.row_range(from, count),
                            values(layer, rows.slot, capacity).row_range(to, count));
    position += count;
  }
}

Matrix KeyValueCache::keys(std::int64_t layer, std::int64_t slot, std::int64_t count) const {
  return of(layer).keys.matrix().row_range(slot * capacity(layer), count);
}

Matrix KeyValueCache::values(std::int64_t layer, std::int64_t slot, std::int64_t count) const {
  return of(layer).values.matrix().row_range(slot * capacity(layer), count);
}

Bytes KeyValueCache::bytes() const {
  Bytes sum;
  for (const LayerCache& layer : layers_) sum += layer.keys.matrix().bytes() + layer.values.matrix().bytes();
  return sum;
}

void CachedAttention::forward(const AttentionShape& of_pass, std::int64_t layer, const QueryKeyValue& in,
                              const training::AttentionTensors& saved) const {
  const Matrix& statistics = saved.log_sum_exp;
  for (const SequenceRows& rows : rows_) {
    cache_.store(layer, rows, in);
    AttentionShape shape = of_pass;
    shape.batch = 1;
    shape.seq = rows.count;
    Matrix keys = in.k.row_range(rows.row, rows.count);
    Matrix values = in.v.row_range(rows.row, rows.count);
    if (rows.past > 0) {
      // A cache that is full holds the window's keys, in any order, and the query sees all of them.
      const std::int64_t seen = std::min(rows.past + 1, cache_.capacity(layer));
      shape.past = seen - 1;
      shape.window = 0;
      keys = cache_.keys(layer, rows.slot, seen);
      values = cache_.values(layer, rows.slot, seen);
    }
    const Matrix log_sum_exp{static_cast<float*>(statistics.data) + rows.row * shape.heads, shape.heads,
                             rows.count, DType::fp32};
    context_.operators.attention_forward(shape, in.q.row_range(rows.row, rows.count), keys, values,
                                         saved.attention.row_range(rows.row, rows.count), log_sum_exp,
                                         scratch_);
  }
}

}  // namespace plumbline::generation
