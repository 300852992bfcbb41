// On a GPU: quantization and FP8 products at sizes of a real layer, against the CPU.
#include "kernels/cuda/cuda_operators.hpp"
#include "tests/kernels/cuda/layer_sizes.hpp"

namespace plumbline::test {
namespace {

/// Quantizing, scales and transposes, whose codes are the same bits everywhere.
void check_fp8(DType storage, DType type, std::int64_t rows, std::int64_t cols) {
  Call fp8 = call("fp8", [type](Operators& op, const Operands& m) {
    op.fill(m[1], 0);
    op.fp8_amax(m[0], m[1]);
    op.fp8_scales(m[1], largest_finite(type), 1, m[2]);
    op.fill(m[1], 0);
    op.fp8_quantize(m[0], m[2], m[1], m[3]);
    op.fp8_transpose(m[3], m[4]);
    op.fp8_quantize_transpose(m[0], m[2], m[1], m[5], m[6]);
    return 0.0;
  });
  fp8.operands.push_back(random_matrix(rows, cols, storage));
  fp8.operands.push_back(random_matrix(1, 1, DType::fp32));
  fp8.operands.push_back(random_matrix(2, 1, DType::fp32));
  fp8.operands.push_back(random_matrix(rows, cols, type));
  fp8.operands.push_back(random_matrix(cols, rows, type));
  fp8.operands.push_back(random_matrix(rows, cols, type));
  fp8.operands.push_back(random_matrix(cols, rows, type));
  compare(fp8, DType::fp32);
}

TEST(LayerSizes, QuantizingAgreesWithTheCpu) {
  for (const DType storage : {DType::fp32, DType::bf16}) {
    for (const DType type : {DType::fp8_e4m3, DType::fp8_e5m2}) {
      check_fp8(storage, type, 1337, 1001);
      check_fp8(storage, type, 1024, 2304);
    }
  }
}

TEST(LayerSizes, Fp8ProductsAgreeWithTheCpu) {
  if (!cuda_has_fp8(0)) GTEST_SKIP() << "this GPU has no FP8";
  Call products = call("linear in FP8", [](Operators& op, const Operands& m) {
    const auto gemm = [&](const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate,
                          const Matrix& bias) {
      op.gemm({.a = a,
               .b = b,
               .c = c,
               .b_transposed = true,
               .accumulate = accumulate,
               .bias = bias,
               .a_inverse_scale = m[0],
               .b_inverse_scale = m[1]});
    };
    op.fill(m[0], 0.0371);
    op.fill(m[1], 0.23);
    op.fp8_transpose(m[2], m[7]);  // inputs, weights, gradients
    op.fp8_transpose(m[3], m[8]);
    op.fp8_transpose(m[4], m[9]);
    gemm(m[2], m[3], m[5], false, m[6]);  // forward
    gemm(m[4], m[8], m[10], false, {});   // input gradient
    gemm(m[9], m[7], m[11], true, {});    // weight gradient
    gemm(m[9], m[7], m[11], false, m[12]);
    gemm(m[9], m[7], m[11], true, {});
    return 0.0;
  });
  constexpr std::int64_t kTokens = 784, kInputs = 896, kOutputs = 1152;
  products.operands.push_back(random_matrix(1, 1, DType::fp32));
  products.operands.push_back(random_matrix(1, 1, DType::fp32));
  products.operands.push_back(random_matrix(kTokens, kInputs, DType::fp8_e4m3));
  products.operands.push_back(random_matrix(kOutputs, kInputs, DType::fp8_e4m3));
  products.operands.push_back(random_matrix(kTokens, kOutputs, DType::fp8_e5m2));
  products.operands.push_back(random_matrix(kTokens, kOutputs, DType::bf16));
  products.operands.push_back(random_matrix(1, kOutputs, DType::bf16));
  products.operands.push_back(random_matrix(kInputs, kTokens, DType::fp8_e4m3));
  products.operands.push_back(random_matrix(kInputs, kOutputs, DType::fp8_e4m3));
  products.operands.push_back(random_matrix(kOutputs, kTokens, DType::fp8_e5m2));
  products.operands.push_back(random_matrix(kTokens, kInputs, DType::bf16));
  products.operands.push_back(random_matrix(kOutputs, kInputs, DType::fp32));
  products.operands.push_back(random_matrix(1, kInputs, DType::bf16));
  compare(products, DType::bf16);
}

}  // namespace
}  // namespace plumbline::test
