#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/rotary.hpp"

namespace plumbline::training {
namespace {

/// Statistics of the query heads and of the key heads, out of those of all heads.
struct HeadStatistics {
  HeadStatistics(const LayerWidths& shape, const Matrix& all)
      : query(all.columns(0, shape.attention.heads)),
        key(all.columns(shape.attention.heads, shape.attention.kv_heads)) {}
  Matrix query, key;
};

void head_norms_forward(const TrainingContext& context, const Matrix& query_norm, const Matrix& key_norm,
                        LayerActivations& saved) {
  if (query_norm.empty()) return;
  const LayerWidths& shape = context.shape;
  saved.normed =
      context.make(context.kept, "layer normed queries and keys", shape.tokens, shape.query + shape.key);
  saved.normed_stats = context.make_fp32(context.kept, "layer head statistics", shape.tokens,
                                         shape.attention.heads + shape.attention.kv_heads);
  const QueryKeyValue from(shape, saved.qkv.matrix());
  const QueryKeyValue to(shape, saved);
  const HeadStatistics stats(shape, saved.normed_stats);
  const double epsilon = context.model().norm_epsilon;
  context.operators.head_norm_forward(from.q, query_norm, to.q, stats.query, epsilon);
  context.operators.head_norm_forward(from.k, key_norm, to.k, stats.key, epsilon);
}

void head_norms_backward(const TrainingContext& context, const Layer& layer, const LayerActivations& saved,
                         const QueryKeyValue& gradient) {
  if (!saved.normed) return;
  const QueryKeyValue from(context.shape, saved.qkv.matrix());
  const HeadStatistics stats(context.shape, saved.normed_stats);
  context.operators.head_norm_backward(gradient.q, from.q, layer.values.query_norm, stats.query, gradient.q,
                                       layer.gradients.query_norm);
  context.operators.head_norm_backward(gradient.k, from.k, layer.values.key_norm, stats.key, gradient.k,
                                       layer.gradients.key_norm);
}

/// The multipliers are linear in queries and values: they scale their gradients likewise.
void multiply_inputs(const TrainingContext& context, const QueryKeyValue& of) {
  const Multipliers& factors = context.model().multipliers;
  if (factors.attention != 1) context.operators.scale(of.q, factors.attention);
  if (factors.residual != 1) context.operators.scale(of.v, factors.residual);
}

}  // namespace

void prepare_attention(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  const bool norms_last = context.model().norms_rotated;
  if (norms_last) rotate(context, shared, layer, QueryKeyValue(shape, saved.qkv.matrix()), false);
  head_norms_forward(context, layer.values.query_norm, layer.values.key_norm, saved);
  if (!norms_last) rotate(context, shared, layer, QueryKeyValue(shape, saved), false);
  multiply_inputs(context, QueryKeyValue(shape, saved));
}

void prepare_attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                                const Layer& layer, const LayerActivations& saved,
                                const QueryKeyValue& gradient) {
  const bool norms_last = context.model().norms_rotated;
  multiply_inputs(context, gradient);
  if (!norms_last) rotate(context, shared, layer, gradient, true);
  head_norms_backward(context, layer, saved, gradient);
  if (norms_last) rotate(context, shared, layer, gradient, true);
}

}  // namespace plumbline::training
