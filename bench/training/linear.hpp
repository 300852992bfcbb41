// The three products of a linear layer y = x·Wᵀ + b.
#pragma once

#include "bench/training/context.hpp"

namespace plumbline::training {

/// y = x·Wᵀ [+ bias].
inline void linear(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                   const Matrix& y) {
  context.operators.gemm({.a = x, .b = weight, .c = y, .b_transposed = true, .bias = bias});
}

/// dx = dy·W.
inline void linear_input_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& weight,
                                  const Matrix& dx) {
  context.operators.gemm({.a = dy, .b = weight, .c = dx});
}

/// dW += dyᵀ·x.
inline void linear_weight_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& x,
                                   const Matrix& dweight) {
  context.operators.gemm({.a = dy, .b = x, .c = dweight, .a_transposed = true, .accumulate = true});
}

/// dbias += column sums of dy. The bias of a reduced product is the same on all tensor ranks: its dy are this
/// rank's rows only, and the sum over the ranks comes at the end of the step.
inline void bias_gradient(const TrainingContext& context, const Matrix& dy, const Matrix& dbias) {
  if (!dbias.empty()) context.operators.bias_backward(dy, dbias);
}

}  // namespace plumbline::training
