// One decoder layer: pre-norm attention and feed-forward blocks with residuals, tensor-parallel in Megatron's
// way (arXiv:1909.08053 §3): qkv and fc1 cut by output, proj and fc2 by input, one all-reduce after each of
// the latter.
#pragma once

#include "bench/training/context.hpp"

namespace plumbline::training {

/// Views into the rank's parameter memory, or, with the same shapes, into its gradient memory. Biases that
/// the model lacks are empty.
struct LayerWeights {
  Matrix norm1, norm1_bias, norm2, norm2_bias;
  Matrix qkv, qkv_bias, proj, proj_bias;
  Matrix fc1, fc1_bias, fc2, fc2_bias;
};

/// What the forward of one micro-batch leaves for its backward.
struct LayerActivations {
  Tensor input;
  Tensor norm1, norm1_stats;
  Tensor qkv;
  Tensor attention, log_sum_exp;
  Tensor middle;  // after the attention block's residual
  Tensor norm2, norm2_stats;
  Tensor fc1;
  Tensor activation;
};

/// Statistics kept by a norm: (n, T) fp32, n = 1 (rstd) or 2 (mean, rstd).
void norm_forward(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  const Matrix& y, const Matrix& stats);
/// dx = residual + gradient; dweight, dbias accumulated into.
void norm_backward(const TrainingContext& context, const Matrix& dy, const Matrix& x, const Matrix& weight,
                   const Matrix& stats, const Matrix& residual, const Matrix& dx, const Matrix& dweight,
                   const Matrix& dbias);

/// Reads saved.input, fills the rest of `saved`, overwrites `output` (T, h).
void layer_forward(const TrainingContext& context, const SharedBuffers& shared, const LayerWeights& weights,
                   LayerActivations& saved, const Matrix& output);

/// Takes the gradient of the output in `gradient_in`, leaves that of the input in `gradient_out` (they may be
/// the same memory), accumulates into `gradients`, and frees `saved` as it goes.
void layer_backward(const TrainingContext& context, const SharedBuffers& shared, const LayerWeights& weights,
                    const LayerWeights& gradients, LayerActivations& saved, const Matrix& gradient_in,
                    const Matrix& gradient_out);

}  // namespace plumbline::training
