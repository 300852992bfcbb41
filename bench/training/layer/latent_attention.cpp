#include "bench/training/layer/latent_attention.hpp"

#include <utility>

#include "bench/training/layer/rotary.hpp"

namespace plumbline::training {
namespace {

constexpr double kEpsilon =
    1e-6;  // of both norms, whatever the others have (transformers' DeepseekV3RMSNorm)

/// Of what queries, keys and values are made from, or its gradient: the queries' part, the keys' and values', and the keys'
/// rotated elements.
struct Compressed {
  Compressed(const LayerWidths& shape, const Matrix& all)
      : query(all.columns(0, shape.query_rank)),
        kv(all.columns(shape.query_rank, shape.kv_rank)),
        rotated(all.columns(shape.query_rank + shape.kv_rank, shape.rotated)) {}
  Matrix query, kv, rotated;
};

Matrix keys_of(const LayerWidths& shape, const LatentMatrices& matrices) {
  return matrices.keys_values.row_range(0, shape.own_keys);
}
Matrix values_of(const LayerWidths& shape, const LatentMatrices& matrices) {
  return matrices.keys_values.row_range(shape.own_keys, shape.value);
}

/// The norms of the first two parts; the third goes along.
void norms_forward(const TrainingContext& context, const LayerVectors& vectors, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  saved.latent = context.make(context.kept, "layer normed compression", shape.rows, shape.compressed);
  saved.latent_stats = context.make_fp32(context.kept, "layer compression statistics", shape.rows, 2);
  const Compressed from(shape, saved.compressed);
  const Compressed to(shape, saved.latent);
  const Matrix stats = saved.latent_stats;
  context.operators.head_norm_forward(from.query, vectors.query_rank_norm, to.query, stats.columns(0, 1),
                                      kEpsilon);
  context.operators.head_norm_forward(from.kv, vectors.kv_rank_norm, to.kv, stats.columns(1, 1), kEpsilon);
  context.operators.copy(from.rotated, to.rotated);
}

/// The gradient of what the norms gave becomes that of what they read.
void norms_backward(const TrainingContext& context, const Layer& layer, LayerActivations& saved,
                    const Matrix& gradient) {
  const Compressed at(context.shape, gradient);
  const Compressed from(context.shape, saved.compressed);
  const Matrix stats = saved.latent_stats;
  context.operators.head_norm_backward(at.query, from.query, layer.values.query_rank_norm,
                                       stats.columns(0, 1), at.query, layer.gradients.query_rank_norm);
  context.operators.head_norm_backward(at.kv, from.kv, layer.values.kv_rank_norm, stats.columns(1, 1), at.kv,
                                       layer.gradients.kv_rank_norm);
  saved.compressed.reset();
  saved.latent_stats.reset();
}

/// gradient (R, C): of what the norms gave, from those of queries, keys and values, over the tensor ranks, which have heads of
/// their own. Leaves the gradient of the keys' own elements in `own` (T, u).
void sum_gradients(const TrainingContext& context, const SharedBuffers& shared, const LatentMatrices& weights,
                   const QueryKeyValue& from, const Matrix& own, const Matrix& gradient) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  rotate_heads(context, shared, from.q, shape.attention.head_dim, true);
  context.sum_over_tensor_ranks(gradient, [&](const Matrix& to) {
    const Compressed sums(shape, to);
    ops.split_heads(from.k, shape.attention.heads, sums.rotated, own);
    rotate_heads(context, shared, sums.rotated, shape.rotated, true);
    ops.gemm({.a = from.q, .b = weights.queries, .c = sums.query});
    ops.gemm({.a = own, .b = keys_of(shape, weights), .c = sums.kv});
    ops.gemm({.a = from.v, .b = values_of(shape, weights), .c = sums.kv, .accumulate = true});
  });
}

void weight_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& x,
                     const Matrix& dweight) {
  context.operators.gemm({.a = dy, .b = x, .c = dweight, .a_transposed = true, .accumulate = true});
}

/// Of the matrices that make queries, the keys' own elements and values of what is compressed, `all` (T, C).
void add_weight_gradients(const TrainingContext& context, const LatentMatrices& dweights, const Matrix& all,
                          const QueryKeyValue& from, const Matrix& own) {
  const LayerWidths& shape = context.shape;
  const Compressed x(shape, all);
  weight_gradient(context, from.q, x.query, dweights.queries);
  weight_gradient(context, own, x.kv, keys_of(shape, dweights));
  weight_gradient(context, from.v, x.kv, values_of(shape, dweights));
}

/// From that of what was compressed; every tensor rank has the whole matrix and computes all of it.
void add_compression_gradient(const TrainingContext& context, const LatentMatrices& dweights,
                              const Matrix& norm, const Matrix& gradient) {
  const AllRows x = context.gather_rows(norm);
  const AllRows dy = context.gather_rows(gradient);
  weight_gradient(context, dy, x, dweights.down);
}

Tensor norm_gradient(const TrainingContext& context, const LatentMatrices& weights, const Matrix& gradient) {
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm1");
  context.operators.gemm({.a = gradient, .b = weights.down, .c = dnorm});
  return dnorm;
}

Tensor make_own_keys(const TrainingContext& context) {
  return context.make(kPassing, "keys' own elements", context.shape.tokens, context.shape.own_keys);
}

}  // namespace

void latent_forward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                    const LatentMatrices& weights, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  saved.compressed = context.make(context.kept, "layer compression", shape.rows, shape.compressed);
  ops.gemm({.a = saved.norm1.values(), .b = weights.down, .c = saved.compressed, .b_transposed = true});
  norms_forward(context, layer.values, saved);
  latent_up_projection(context, shared, weights, saved, false);
}

void latent_up_projection(const TrainingContext& context, const SharedBuffers& shared,
                          const LatentMatrices& weights, LayerActivations& saved, bool again) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  const AllRows all = context.gather_rows(saved.latent);
  const Compressed x(shape, all);
  if (!again || all.held) rotate_heads(context, shared, x.rotated, shape.rotated, false);
  saved.qkv = context.make(context.kept, "layer qkv", shape.tokens, shape.qkv);
  const QueryKeyValue to(shape, saved.qkv.matrix());
  ops.gemm({.a = x.query, .b = weights.queries, .c = to.q, .b_transposed = true});
  rotate_heads(context, shared, to.q, shape.attention.head_dim, false);
  {
    const Tensor own = make_own_keys(context);
    ops.gemm({.a = x.kv, .b = keys_of(shape, weights), .c = own, .b_transposed = true});
    ops.join_heads(x.rotated, own, shape.attention.heads, to.k);
  }
  ops.gemm({.a = x.kv, .b = values_of(shape, weights), .c = to.v, .b_transposed = true});
}

Tensor latent_backward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       const LatentMatrices& weights, const LatentMatrices& dweights, LayerActivations& saved,
                       Tensor dqkv) {
  const LayerWidths& shape = context.shape;
  Tensor gradient = context.make(kPassing, "gradient of compression", shape.rows, shape.compressed);
  {
    const Tensor own = make_own_keys(context);
    const QueryKeyValue from(shape, dqkv.matrix());
    sum_gradients(context, shared, weights, from, own, gradient);
    const AllRows all = context.gather_rows(saved.latent);
    add_weight_gradients(context, dweights, all, from, own);
  }
  dqkv.reset();
  saved.latent.reset();
  norms_backward(context, layer, saved, gradient);
  Tensor dnorm = norm_gradient(context, weights, gradient);
  add_compression_gradient(context, dweights, saved.norm1.values(), gradient);
  gradient.reset();
  saved.norm1.reset();
  return dnorm;
}

Tensor latent_input_gradient(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                             const LatentMatrices& weights, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  Tensor& gradient = saved.compressed_gradient;
  gradient = context.make(Category::activations, "gradient of compression", shape.rows, shape.compressed);
  {
    const Tensor own = make_own_keys(context);
    const QueryKeyValue from(shape, saved.qkv_gradient.matrix());
    sum_gradients(context, shared, weights, from, own, gradient);
  }
  norms_backward(context, layer, saved, gradient);
  return norm_gradient(context, weights, gradient);
}

void latent_backward_weight(const TrainingContext& context, const LatentMatrices& dweights,
                            LayerActivations& saved) {
  {
    const AllRows all = context.gather_rows(saved.latent);
    const Tensor own = make_own_keys(context);
    const QueryKeyValue from(context.shape, saved.qkv_gradient.matrix());
    context.operators.split_heads(from.k, context.shape.attention.heads, {}, own);
    add_weight_gradients(context, dweights, all, from, own);
  }
  saved.qkv_gradient.reset();
  saved.latent.reset();
  add_compression_gradient(context, dweights, saved.norm1.values(), saved.compressed_gradient);
  saved.compressed_gradient.reset();
  saved.norm1.reset();
}

}  // namespace plumbline::training
