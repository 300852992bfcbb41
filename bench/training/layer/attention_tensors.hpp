// The tensors of a layer's attention.
#pragma once

#include "bench/training/parameters/layer_widths.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline::training {

/// A layer's attention between its forward and its backward; what the layer lacks is empty.
struct AttentionTensors {
  Matrix qkv{};
  Matrix normed{}, normed_stats{};  // with norms of queries and keys: their outputs, (T, q + k); (T, heads)
  Matrix attention{}, log_sum_exp{};
  Matrix attention_of_heads{};  // if heads are exchanged: of some of them, of longer parts of sequences
  Matrix probabilities{}, repeated{};                  // of unfused attention
  Matrix probability_mask{}, dropped_probabilities{};  // likewise, with dropout
};

/// Views of q, k and v in a tensor of qkv's shape.
struct QueryKeyValue {
  QueryKeyValue(const LayerWidths& shape, const AttentionTensors& saved) : QueryKeyValue(shape, saved.qkv) {
    if (saved.normed.empty()) return;
    q = saved.normed.columns(0, shape.query);
    k = saved.normed.columns(shape.query, shape.key);
  }
  QueryKeyValue(const LayerWidths& shape, const Matrix& qkv)
      : q(qkv.columns(0, shape.query)),
        k(qkv.columns(shape.query, shape.key)),
        v(qkv.columns(shape.query + shape.key, shape.value)) {}
  QueryKeyValue(const Matrix& query, const Matrix& key, const Matrix& value) : q(query), k(key), v(value) {}
  Matrix q, k, v;
};

}  // namespace plumbline::training
