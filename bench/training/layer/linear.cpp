#include "bench/training/layer/linear.hpp"

#include <utility>

namespace plumbline::training {
namespace {

Gemm product(const LinearOperand& a, const LinearOperand& b, const Matrix& c) {
  return {.a = a.values(),
          .b = b.values(),
          .c = c,
          .a_inverse_scale = a.inverse_scale(),
          .b_inverse_scale = b.inverse_scale()};
}

LinearOperand transposed(const TrainingContext& context, const char* holder, const LinearOperand& x) {
  const Matrix& from = x.values();
  Tensor to = context.arena.allocate(Category::workspace, holder, from.cols, from.rows, from.dtype);
  context.operators.fp8_transpose(from, to);
  return LinearOperand(std::move(to), x.inverse_scale());
}

/// W as forward products read it, (out, in).
LinearOperand by_output(const LinearWeight& weight) {
  const Fp8Linear& fp8 = weight.fp8;
  if (fp8.quantized.empty()) return fp8.weight.read(weight.values, "quantized weight");
  return LinearOperand(fp8.quantized, fp8.weight.inverse_scale());
}

/// W as input gradients read it: (out, in) of the storage type, or (in, out) quantized, since both operands
/// of such a product are contiguous along what is summed over.
LinearOperand by_input(const TrainingContext& context, const LinearWeight& weight) {
  const Fp8Linear& fp8 = weight.fp8;
  if (!fp8.weight) return LinearOperand(weight.values);
  if (!fp8.transposed.empty()) return LinearOperand(fp8.transposed, fp8.weight.inverse_scale());
  return transposed(context, "transposed weight", fp8.weight.read(weight.values, "quantized weight"));
}

}  // namespace

LinearOperand gather_rows(const TrainingContext& context, const LinearOperand& x) {
  AllRows all = context.gather_rows(x.values());
  if (!all.held) return LinearOperand(all.rows, x.inverse_scale());
  return LinearOperand(std::move(all.held), x.inverse_scale());
}

void linear(const TrainingContext& context, const LinearOperand& x, const LinearWeight& weight,
            const Matrix& bias, const Matrix& y) {
  const LinearOperand w = by_output(weight);
  Gemm gemm = product(x, w, y);
  gemm.b_transposed = true;
  gemm.bias = bias;
  context.operators.gemm(gemm);
}

void linear_over_tensor_ranks(const TrainingContext& context, const LinearOperand& x,
                              const LinearWeight& weight, const Matrix& y) {
  const LinearOperand w = by_output(weight);
  Gemm gemm = product(x, w, y);
  gemm.b_transposed = true;
  context.gemm_over_tensor_ranks(gemm);
}

void linear_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                           const LinearWeight& weight, const Matrix& dx) {
  const LinearOperand w = by_input(context, weight);
  Gemm gemm = product(dy, w, dx);
  gemm.b_transposed = w.quantized();
  context.operators.gemm(gemm);
}

void linear_input_gradient_over_tensor_ranks(const TrainingContext& context, const LinearOperand& dy,
                                             const LinearWeight& weight, const Matrix& dx) {
  const LinearOperand w = by_input(context, weight);
  Gemm gemm = product(dy, w, dx);
  gemm.b_transposed = w.quantized();
  context.gemm_over_tensor_ranks(gemm);
}

void linear_weight_gradient(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                            const Matrix& dweight) {
  if (!dy.quantized()) {
    Gemm gemm = product(dy, x, dweight);
    gemm.a_transposed = gemm.accumulate = true;
    return context.operators.gemm(gemm);
  }
  const LinearOperand dyt = transposed(context, "transposed gradient", dy);
  const LinearOperand xt = transposed(context, "transposed input", x);
  Gemm gemm = product(dyt, xt, dweight);
  gemm.b_transposed = gemm.accumulate = true;
  context.operators.gemm(gemm);
}

}  // namespace plumbline::training
