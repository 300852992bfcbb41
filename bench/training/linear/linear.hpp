// The three products of a linear layer y = x·Wᵀ + b, in the storage type or FP8 (bench/training/fp8.md).
#pragma once

#include "bench/training/linear/adapter.hpp"
#include "bench/training/linear/fp8_layers.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// A weight (out, in) on its way into products.
struct LinearWeight {
  Matrix values;  // of the storage type
  const Fp8Linear& fp8;
  Adapter adapter{};
};

/// All T rows of x, as TrainingContext::gather_rows; x must outlive them.
LinearOperand gather_rows(const TrainingContext& context, const LinearOperand& x);

/// A product with the weight in the form that it reads, and everything else about it.
struct LinearProduct {
  LinearOperand weight;
  Gemm gemm;
};
/// y = x·Wᵀ.
LinearProduct forward_product(const LinearOperand& x, const LinearWeight& weight, const Matrix& y);
/// dx = dy·W.
LinearProduct input_gradient_product(const LinearOperand& dy, const LinearWeight& weight, const Matrix& dx);

/// y = x·Wᵀ [+ bias], and its adapter's part.
void linear(const TrainingContext& context, const LinearOperand& x, const LinearWeight& weight,
            const Matrix& bias, const Matrix& y);
/// y = x·Wᵀ if tensor ranks hold partial sums (TrainingContext::gemm_over_tensor_ranks).
void linear_over_tensor_ranks(const TrainingContext& context, const LinearOperand& x,
                              const LinearWeight& weight, const Matrix& y);

/// dx = dy·W, without an adapter's part.
void linear_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                           const LinearWeight& weight, const Matrix& dx);
/// The same if tensor ranks hold partial sums.
void linear_input_gradient_over_tensor_ranks(const TrainingContext& context, const LinearOperand& dy,
                                             const LinearWeight& weight, const Matrix& dx);

/// dW += dyᵀ·x; nothing of a frozen weight, nor of its bias.
void linear_weight_gradient(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                            const Matrix& dweight);

/// The same, and dbias += column sums of `wide_dy`, unless it is empty: this rank's rows of the tensor from
/// which dy was quantized or gathered. The bias of a reduced product is the same on all tensor ranks, and the
/// sum over them comes at the end of the step. One operator if dy is wide_dy and gradients are fp32.
void linear_weight_gradient(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                            const Matrix& dweight, const Matrix& wide_dy, const Matrix& dbias);

}  // namespace plumbline::training
