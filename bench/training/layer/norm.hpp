// The model's norm, RMSNorm or LayerNorm, with its statistics in one tensor.
#pragma once

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Statistics kept by a norm: (n, R) fp32, n = 1 (rstd) or 2 (mean, rstd).
void norm_forward(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  const Matrix& y, const Matrix& stats);
/// Residual addition of a block, and the norm of the sum.
void added_norm_forward(const TrainingContext& context, const ResidualSum& added, const Matrix& weight,
                        const Matrix& bias, const Matrix& y, const Matrix& stats);
/// dx = residual + gradient; dweight, dbias accumulated into.
void norm_backward(const TrainingContext& context, const Matrix& dy, const Matrix& x, const Matrix& weight,
                   const Matrix& stats, const Matrix& residual, const Matrix& dx, const Matrix& dweight,
                   const Matrix& dbias);

}  // namespace plumbline::training
