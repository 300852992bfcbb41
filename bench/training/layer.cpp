#include "bench/training/layer.hpp"

namespace plumbline::training {
namespace {

/// y = x·Wᵀ [+ bias].
void linear(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
            const Matrix& y) {
  context.operators.gemm({.a = x, .b = weight, .c = y, .b_transposed = true, .bias = bias});
}

/// dx = dy·W.
void linear_input_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& weight,
                           const Matrix& dx) {
  context.operators.gemm({.a = dy, .b = weight, .c = dx});
}

/// dW += dyᵀ·x; dbias += column sums of dy.
void linear_weight_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& x,
                            const Matrix& dweight, const Matrix& dbias) {
  context.operators.gemm({.a = dy, .b = x, .c = dweight, .a_transposed = true, .accumulate = true});
  if (!dbias.empty()) context.operators.bias_backward(dy, dbias);
}

}  // namespace

void norm_forward(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  const Matrix& y, const Matrix& stats) {
  const double epsilon = context.model().norm_epsilon;
  if (context.model().norm == Norm::rms) {
    context.operators.rmsnorm_forward(x, weight, y, stats, epsilon);
  } else {
    context.operators.layernorm_forward(x, weight, bias, y, stats.row_range(0, 1), stats.row_range(1, 1),
                                        epsilon);
  }
}

void norm_backward(const TrainingContext& context, const Matrix& dy, const Matrix& x, const Matrix& weight,
                   const Matrix& stats, const Matrix& residual, const Matrix& dx, const Matrix& dweight,
                   const Matrix& dbias) {
  if (context.model().norm == Norm::rms) {
    context.operators.rmsnorm_backward(dy, x, weight, stats, residual, dx, dweight);
  } else {
    context.operators.layernorm_backward(dy, x, weight, stats.row_range(0, 1), stats.row_range(1, 1),
                                         residual, dx, dweight, dbias);
  }
}

void layer_forward(const TrainingContext& context, const SharedBuffers& shared, const LayerWeights& weights,
                   LayerActivations& saved, const Matrix& output) {
  Operators& ops = context.operators;
  const StageShape& shape = context.shape;
  const std::int64_t rows = shape.tokens;
  constexpr Category kKept = Category::activations;

  saved.norm1 = context.make(kKept, "layer norm1", rows, shape.hidden);
  saved.norm1_stats = context.make_fp32(kKept, "layer norm1 statistics", shape.norm_stats, rows);
  norm_forward(context, saved.input, weights.norm1, weights.norm1_bias, saved.norm1, saved.norm1_stats);

  saved.qkv = context.make(kKept, "layer qkv", rows, shape.qkv);
  linear(context, saved.norm1, weights.qkv, weights.qkv_bias, saved.qkv);
  const Matrix q = saved.qkv.matrix().columns(0, shape.query);
  const Matrix k = saved.qkv.matrix().columns(shape.query, shape.key);
  const Matrix v = saved.qkv.matrix().columns(shape.query + shape.key, shape.key);
  if (shared.rope_cos) {
    ops.rope(q, shared.rope_cos, shared.rope_sin, shape.attention.head_dim, false);
    ops.rope(k, shared.rope_cos, shared.rope_sin, shape.attention.head_dim, false);
  }
  saved.attention = context.make(kKept, "layer attention", rows, shape.query);
  saved.log_sum_exp = context.make_fp32(kKept, "layer log-sum-exp",
                                        shape.attention.batch * shape.attention.heads, shape.attention.seq);
  ops.attention_forward(shape.attention, q, k, v, saved.attention, saved.log_sum_exp,
                        shared.attention_scratch);

  saved.middle = context.make(kKept, "layer middle", rows, shape.hidden);
  context.gemm_over_tensor_ranks(
      {.a = saved.attention, .b = weights.proj, .c = saved.middle, .b_transposed = true});
  ops.add(saved.middle, saved.input, weights.proj_bias, saved.middle);

  saved.norm2 = context.make(kKept, "layer norm2", rows, shape.hidden);
  saved.norm2_stats = context.make_fp32(kKept, "layer norm2 statistics", shape.norm_stats, rows);
  norm_forward(context, saved.middle, weights.norm2, weights.norm2_bias, saved.norm2, saved.norm2_stats);

  saved.fc1 = context.make(kKept, "layer fc1", rows, shape.fc1);
  linear(context, saved.norm2, weights.fc1, weights.fc1_bias, saved.fc1);
  saved.activation = context.make(kKept, "layer activation", rows, shape.ffn);
  if (context.model().activation == Activation::swiglu) {
    ops.swiglu_forward(saved.fc1, saved.activation);
  } else {
    ops.gelu_forward(saved.fc1, saved.activation);
  }
  context.gemm_over_tensor_ranks(
      {.a = saved.activation, .b = weights.fc2, .c = output, .b_transposed = true});
  ops.add(output, saved.middle, weights.fc2_bias, output);
}

void layer_backward(const TrainingContext& context, const SharedBuffers& shared, const LayerWeights& weights,
                    const LayerWeights& gradients, LayerActivations& saved, const Matrix& gradient_in,
                    const Matrix& gradient_out) {
  Operators& ops = context.operators;
  const StageShape& shape = context.shape;
  const std::int64_t rows = shape.tokens;
  constexpr Category kPassing = Category::workspace;

  {  // feed-forward block
    Tensor dact = context.make(kPassing, "gradient of activation", rows, shape.ffn);
    linear_input_gradient(context, gradient_in, weights.fc2, dact);
    linear_weight_gradient(context, gradient_in, saved.activation, gradients.fc2, gradients.fc2_bias);
    saved.activation.reset();
    Tensor dfc1;
    if (context.model().activation == Activation::swiglu) {
      dfc1 = context.make(kPassing, "gradient of fc1", rows, shape.fc1);
      ops.swiglu_backward(dact, saved.fc1, dfc1);
      dact.reset();
    } else {
      ops.gelu_backward(dact, saved.fc1, dact);
      dfc1 = std::move(dact);
    }
    saved.fc1.reset();
    const Tensor dnorm = context.make(kPassing, "gradient of norm2", rows, shape.hidden);
    context.gemm_over_tensor_ranks({.a = dfc1, .b = weights.fc1, .c = dnorm});
    linear_weight_gradient(context, dfc1, saved.norm2, gradients.fc1, gradients.fc1_bias);
    dfc1.reset();
    saved.norm2.reset();
    norm_backward(context, dnorm, saved.middle, weights.norm2, saved.norm2_stats, gradient_in, gradient_out,
                  gradients.norm2, gradients.norm2_bias);
    saved.middle.reset();
    saved.norm2_stats.reset();
  }
  {  // attention block
    Tensor dattention = context.make(kPassing, "gradient of attention", rows, shape.query);
    linear_input_gradient(context, gradient_out, weights.proj, dattention);
    linear_weight_gradient(context, gradient_out, saved.attention, gradients.proj, gradients.proj_bias);
    Tensor dqkv = context.make(kPassing, "gradient of qkv", rows, shape.qkv);
    const auto part = [&](const Tensor& qkv, int which) {
      if (which == 0) return qkv.matrix().columns(0, shape.query);
      return qkv.matrix().columns(shape.query + (which - 1) * shape.key, shape.key);
    };
    ops.attention_backward(shape.attention, part(saved.qkv, 0), part(saved.qkv, 1), part(saved.qkv, 2),
                           saved.attention, saved.log_sum_exp, dattention, part(dqkv, 0), part(dqkv, 1),
                           part(dqkv, 2), shared.attention_scratch);
    dattention.reset();
    saved.attention.reset();
    saved.log_sum_exp.reset();
    saved.qkv.reset();
    if (shared.rope_cos) {
      ops.rope(part(dqkv, 0), shared.rope_cos, shared.rope_sin, shape.attention.head_dim, true);
      ops.rope(part(dqkv, 1), shared.rope_cos, shared.rope_sin, shape.attention.head_dim, true);
    }
    const Tensor dnorm = context.make(kPassing, "gradient of norm1", rows, shape.hidden);
    context.gemm_over_tensor_ranks({.a = dqkv, .b = weights.qkv, .c = dnorm});
    linear_weight_gradient(context, dqkv, saved.norm1, gradients.qkv, gradients.qkv_bias);
    dqkv.reset();
    saved.norm1.reset();
    norm_backward(context, dnorm, saved.input, weights.norm1, saved.norm1_stats, gradient_out, gradient_out,
                  gradients.norm1, gradients.norm1_bias);
    saved.input.reset();
    saved.norm1_stats.reset();
  }
}

}  // namespace plumbline::training
