#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/rotary.hpp"

namespace plumbline::training {

bool norms_whole_rows(const TrainingContext& context) {
  return context.model().predicted.query_norm == QueryNorm::width;
}

namespace {

/// Statistics of queries and keys: a column per head, or one row each.
struct HeadStatistics {
  HeadStatistics(const TrainingContext& context, const Matrix& all) {
    const AttentionShape& shape = context.shape.attention;
    const bool rows = norms_whole_rows(context);
    query = rows ? all.row_range(0, 1) : all.columns(0, shape.heads);
    key = rows ? all.row_range(1, 1) : all.columns(shape.heads, shape.kv_heads);
  }
  Matrix query, key;
};

void forward_one(const TrainingContext& context, const Matrix& x, const Matrix& w, const Matrix& y,
                 const Matrix& rstd) {
  const double epsilon = context.model().norms.epsilon;
  if (norms_whole_rows(context)) return context.operators.rmsnorm_forward(x, w, y, rstd, epsilon);
  context.operators.head_norm_forward(x, w, y, rstd, epsilon);
}

/// In place: dy becomes the gradient of x. Both operators read a row of dy before they write it.
void backward_one(const TrainingContext& context, const Matrix& dy, const Matrix& x, const Matrix& w,
                  const Matrix& rstd, const Matrix& dw) {
  if (norms_whole_rows(context)) return context.operators.rmsnorm_backward(dy, x, w, rstd, {}, dy, dw);
  context.operators.head_norm_backward(dy, x, w, rstd, dy, dw);
}

void head_norms_forward(const TrainingContext& context, const LayerVectors& vectors,
                        const AttentionTensors& saved) {
  if (saved.normed.empty()) return;
  const QueryKeyValue from(context.shape, saved.qkv);
  const QueryKeyValue to(context.shape, saved);
  const HeadStatistics stats(context, saved.normed_stats);
  forward_one(context, from.q, vectors.query_norm, to.q, stats.query);
  forward_one(context, from.k, vectors.key_norm, to.k, stats.key);
}

void head_norms_backward(const TrainingContext& context, const Layer& layer, const AttentionTensors& saved,
                         const QueryKeyValue& gradient) {
  if (saved.normed_stats.empty()) return;
  const QueryKeyValue from(context.shape, saved.qkv);
  const HeadStatistics stats(context, saved.normed_stats);
  backward_one(context, gradient.q, from.q, layer.values.query_norm, stats.query, layer.gradients.query_norm);
  backward_one(context, gradient.k, from.k, layer.values.key_norm, stats.key, layer.gradients.key_norm);
}

/// The multipliers are linear in queries and values: they scale their gradients likewise.
void multiply_inputs(const TrainingContext& context, const QueryKeyValue& of) {
  const Multipliers& factors = context.model().multipliers;
  if (factors.attention != 1) context.operators.scale(of.q, factors.attention);
  if (factors.residual != 1) context.operators.scale(of.v, factors.residual);
}

}  // namespace

void prepare_attention(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       const AttentionTensors& saved) {
  const LayerWidths& shape = context.shape;
  const bool norms_last = context.model().norms.qk_rotated;
  if (norms_last) rotate(context, shared, layer, QueryKeyValue(shape, saved.qkv), false);
  head_norms_forward(context, layer.values, saved);
  if (!norms_last) rotate(context, shared, layer, QueryKeyValue(shape, saved), false);
  multiply_inputs(context, QueryKeyValue(shape, saved));
}

void prepare_attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                                const Layer& layer, const AttentionTensors& saved,
                                const QueryKeyValue& gradient) {
  const bool norms_last = context.model().norms.qk_rotated;
  multiply_inputs(context, gradient);
  if (!norms_last) rotate(context, shared, layer, gradient, true);
  head_norms_backward(context, layer, saved, gradient);
  if (norms_last) rotate(context, shared, layer, gradient, true);
}

}  // namespace plumbline::training
