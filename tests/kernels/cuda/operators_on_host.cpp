// The CUDA operators, run on the host, as the backend under test.
#include "core/base/error.hpp"
#include "kernels/checks/checked.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {

std::unique_ptr<Operators> make_operators() {
  return std::make_unique<Checked<cuda::CudaOperators>>(CudaOptions{});
}

std::vector<DType> element_types() {
  return {DType::fp32, DType::bf16, DType::fp16};
}

std::int64_t fp8_size_step() {
  return 16;
}

double fp8_sum_rounding() {
  return 0;
}

namespace {

TEST(Fp8Units, DevicesWithoutThemRefuseTheProductsAndSayWhatToDo) {
  cuda::CudaOperators older(CudaOptions{.device = 80});
  const Guarded x(16, 16, DType::fp8_e4m3);
  const Guarded c(16, 16, DType::bf16);
  const Guarded one(1, 1, DType::fp32);
  const Gemm gemm{
      .a = x, .b = x, .c = c, .b_transposed = true, .a_inverse_scale = one, .b_inverse_scale = one};
  try {
    older.gemm(gemm);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "gemm: FP8 operands need a GPU of compute capability 8.9 or later, device 80 has 8.0; set "
                 "fp8_format to none");
  }
  older.fp8_transpose(x, Guarded(16, 16, DType::fp8_e4m3));  // no product
  EXPECT_TRUE(cuda_has_fp8(0));
  EXPECT_FALSE(cuda_has_fp8(80));
}

}  // namespace
}  // namespace plumbline::test
