// Operators::gemm on CUDA: checks, the cases without a product, and a bias that cuBLASLt's epilogue cannot
// add.
#include "kernels/checks.hpp"
#include "kernels/cuda/cuda_backend.hpp"

namespace plumbline::cuda {
namespace {

void check_product(const Gemm& gemm) {
  const Matrix& a = gemm.a;
  const Matrix& b = gemm.b;
  const Matrix& c = gemm.c;
  const std::int64_t k = gemm.a_transposed ? a.rows : a.cols;
  const bool agrees = (gemm.a_transposed ? a.cols : a.rows) == c.rows &&
                      (gemm.b_transposed ? b.cols : b.rows) == k &&
                      (gemm.b_transposed ? b.rows : b.cols) == c.cols && is_element(a) &&
                      a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::fp32) &&
                      (gemm.bias.data == nullptr || has_shape(gemm.bias, 1, c.cols, a.dtype));
  require(agrees,
          gemm.a_transposed   ? "gemm (A transposed)"
          : gemm.b_transposed ? "gemm (B transposed)"
                              : "gemm",
          "op(A) (m,k), op(B) (k,n) of one floating point type, C (m,n) of that type or fp32, bias (1,n) or "
          "empty",
          {{"A", a}, {"B", b}, {"C", c}, {"bias", gemm.bias}});
}

}  // namespace

void CudaOperators::gemm(const Gemm& gemm) {
  check_product(gemm);
  if (gemm.c.empty()) return;
  if (gemm.a.empty()) {  // k = 0: an empty sum
    require(gemm.bias.data == nullptr, "gemm", "no bias when k is 0", {{"A", gemm.a}, {"bias", gemm.bias}});
    if (!gemm.accumulate) fill(gemm.c, 0);
    return;
  }
  if (gemm.bias.data == nullptr || gemm.bias.dtype == gemm.c.dtype) return matmul_.run(gemm);
  // The epilogue wants a bias of C's type: added afterwards as a matrix whose rows are all the same memory.
  Gemm product = gemm;
  product.bias = Matrix();
  matmul_.run(product);
  const Matrix widened(partials_.at_least<float>(gemm.c.cols), 1, gemm.c.cols, DType::fp32);
  copy(gemm.bias, widened);
  const Matrix repeated(widened.data, gemm.c.rows, gemm.c.cols, 0, DType::fp32);
  cuda::add(queue_, gemm.c, repeated, {}, gemm.c);
}

}  // namespace plumbline::cuda
