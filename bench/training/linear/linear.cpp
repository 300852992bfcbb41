#include "bench/training/linear/linear.hpp"

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

/// W in the form for input gradients: (out, in) of the storage type, or (in, out) quantized. Both operands of
/// an FP8 product are contiguous along the summed dimension.
LinearOperand by_input(const LinearWeight& weight) {
  const Fp8Linear& fp8 = weight.fp8;
  if (!fp8.weight) return LinearOperand(weight.values);
  if (!fp8.transposed.empty()) return LinearOperand(fp8.transposed, fp8.weight.inverse_scale());
  return fp8.weight.read_transposed(weight.values, 1, "transposed weight");
}

}  // namespace

LinearOperand gather_rows(const TrainingContext& context, const LinearOperand& x) {
  AllRows all = context.gather_rows(x.values());
  if (!all.held) return LinearOperand(all.rows, x.inverse_scale());
  return LinearOperand(std::move(all.held), x.inverse_scale());
}

LinearProduct forward_product(const LinearOperand& x, const LinearWeight& weight, const Matrix& y) {
  LinearProduct result{by_output(weight), {}};
  result.gemm = product(x, result.weight, y);
  result.gemm.b_transposed = true;
  return result;
}

LinearProduct input_gradient_product(const LinearOperand& dy, const LinearWeight& weight, const Matrix& dx) {
  LinearProduct result{by_input(weight), {}};
  result.gemm = product(dy, result.weight, dx);
  result.gemm.b_transposed = result.weight.quantized();
  return result;
}

void linear(const TrainingContext& context, const LinearOperand& x, const LinearWeight& weight,
            const Matrix& bias, const Matrix& y) {
  LinearProduct product = forward_product(x, weight, y);
  product.gemm.bias = bias;
  context.operators.gemm(product.gemm);
  adapt(context, x.values(), weight.adapter, y);
}

void linear_over_tensor_ranks(const TrainingContext& context, const LinearOperand& x,
                              const LinearWeight& weight, const Matrix& y) {
  LinearProduct product = forward_product(x, weight, y);
  if (weight.adapter.empty()) return context.layer_gemm_over_tensor_ranks(product.gemm);
  context.sum_over_tensor_ranks(y, [&](const Matrix& partial) {
    product.gemm.c = partial;
    context.operators.gemm(product.gemm);
    adapt(context, x.values(), weight.adapter, partial);
  });
}

void linear_input_gradient(const TrainingContext& context, const LinearOperand& dy,
                           const LinearWeight& weight, const Matrix& dx) {
  context.operators.gemm(input_gradient_product(dy, weight, dx).gemm);
}

void linear_input_gradient_over_tensor_ranks(const TrainingContext& context, const LinearOperand& dy,
                                             const LinearWeight& weight, const Matrix& dx) {
  context.layer_gemm_over_tensor_ranks(input_gradient_product(dy, weight, dx).gemm);
}

void linear_weight_gradient(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                            const Matrix& dweight) {
  linear_weight_gradient(context, dy, x, dweight, {}, {});
}

void linear_weight_gradient(const TrainingContext& context, const LinearOperand& dy, const LinearOperand& x,
                            const Matrix& dweight, const Matrix& wide_dy, const Matrix& dbias) {
  if (context.frozen) return;
  if (!dy.quantized()) {
    Gemm gemm = product(dy, x, dweight);
    gemm.a_transposed = gemm.accumulate = true;
    // The number of rows decides, too: an emulated device has no addresses.
    const bool same = dy.values().data == wide_dy.data && dy.values().rows == wide_dy.rows;
    const bool at_once = !dbias.empty() && same && dweight.dtype == DType::fp32;
    if (at_once) gemm.bias_gradient = dbias;
    context.operators.gemm(gemm);
    if (!dbias.empty() && !at_once) context.operators.bias_backward(wide_dy, dbias);
    return;
  }
  {
    const LinearOperand dyt = transposed(context, "transposed gradient", dy);
    const LinearOperand xt = transposed(context, "transposed input", x);
    Gemm gemm = product(dyt, xt, dweight);
    gemm.b_transposed = gemm.accumulate = true;
    context.operators.gemm(gemm);
  }
  if (!dbias.empty()) context.operators.bias_backward(wide_dy, dbias);
}

}  // namespace plumbline::training
