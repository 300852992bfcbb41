// Operators::gemm on CUDA: checks, the cases without a product, and a bias that cuBLASLt's epilogue cannot
// add.
#include "core/error.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/cuda_backend.hpp"

namespace plumbline::cuda {
void CudaOperators::gemm(const Gemm& gemm) {
  require_product(gemm);
  if (is_fp8(gemm.a.dtype)) throw Error("gemm: 8-bit operands are not there yet on CUDA");
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
