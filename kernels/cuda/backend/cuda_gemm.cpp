// Operators::gemm on CUDA: checks, the cases without a product, and biases and bias gradients that cuBLASLt's
// epilogue does not support.
#include "core/base/error.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline {
namespace cuda {
namespace {

bool rows_on_16_bytes(const Matrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
         (x.rows == 1 || x.stride * size_of(x.dtype) % 16 == 0);
}

constexpr int kFirstWithFp8 = 89;  // Ada; 90 is Hopper

int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  PLUMBLINE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PLUMBLINE_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

void require_fp8_units(int device) {
  const int found = compute_capability(device);
  if (found >= kFirstWithFp8) return;
  throw Error("gemm: FP8 operands need a GPU of compute capability 8.9 or later, device " +
              std::to_string(device) + " has " + std::to_string(found / 10) + "." +
              std::to_string(found % 10) + "; set fp8_format to none");
}

/// Requirements of cuBLASLt on FP8 products beyond their form (its documentation, "cublasLtMatmul()" and
/// "Tensor Core Usage").
void require_fp8_alignment(const Gemm& gemm) {
  const bool agrees = gemm.a.rows % 16 == 0 && gemm.a.cols % 16 == 0 && gemm.b.rows % 16 == 0 &&
                      gemm.a.contiguous() && gemm.b.contiguous() && rows_on_16_bytes(gemm.a) &&
                      rows_on_16_bytes(gemm.b) && rows_on_16_bytes(gemm.c);
  require(agrees, "gemm", "m, n and k multiples of 16, FP8 operands without gaps, rows at 16-byte boundaries",
          {{"A", gemm.a}, {"B", gemm.b}, {"C", gemm.c}});
}

/// The epilogue needs a bias of C's type, and supports none in fp32 with FP8 operands.
bool bias_in_epilogue(const Gemm& gemm) {
  return gemm.bias.dtype == gemm.c.dtype && !(is_fp8(gemm.a.dtype) && gemm.c.dtype == DType::fp32);
}

/// The epilogue writes sums of C's type (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER). 16-bit sums would be
/// rounded once more than the column sums that are added to a gradient. Products with varying rows are not
/// timed, so a gain is unknown.
bool bias_gradient_in_epilogue(const Gemm& gemm) {
  return gemm.c.dtype == DType::fp32 && !gemm.c.empty() && !gemm.a.empty() && !gemm.rows_vary;
}

}  // namespace

void CudaOperators::gemm(const Gemm& gemm) {
  if (queue_.stream != stream()) throw Error("gemm: found the side stream, expected the operators' own");
  if (is_fp8(gemm.a.dtype)) {
    require_fp8_units(device_);
    require_fp8_alignment(gemm);
  }
  if (gemm.bias_gradient.data != nullptr) return weight_and_bias_gradient(gemm);
  product(gemm);
}

void CudaOperators::weight_and_bias_gradient(const Gemm& gemm) {
  Gemm product = gemm;
  product.bias_gradient = Matrix();
  if (bias_gradient_in_epilogue(gemm)) {
    // The epilogue overwrites: its sums go aside, and are added to the gradient.
    const std::int64_t n = gemm.bias_gradient.cols;
    const std::int64_t count = bias_partials(queue_, gemm.a.rows, n);
    auto* const sums = partials_.at_least<float>((2 + count) * n);
    const Matrix tried(sums + n, 1, n, DType::fp32);
    product.bias_gradient = Matrix(sums, 1, n, DType::fp32);
    const auto apart = [&] { cuda::bias_backward(queue_, gemm.a, tried, sums + 2 * n, count); };
    if (matmul_.run_with_column_sums(product, apart)) {
      return add_partials(queue_, sums, 1, n, gemm.bias_gradient);
    }
    product.bias_gradient = Matrix();
  }
  this->product(product);
  bias_backward(gemm.a, gemm.bias_gradient);
}

void CudaOperators::product(const Gemm& gemm) {
  if (gemm.c.empty()) return;
  if (gemm.a.empty()) {  // k = 0: an empty sum
    if (!gemm.accumulate) fill(gemm.c, 0);
    return;
  }
  if (gemm.bias.data == nullptr || bias_in_epilogue(gemm)) return matmul_.run(gemm);
  // Added afterwards, as a matrix whose rows are all the same memory.
  Gemm product = gemm;
  product.bias = Matrix();
  matmul_.run(product);
  const Matrix widened(partials_.at_least<float>(gemm.c.cols), 1, gemm.c.cols, DType::fp32);
  copy(gemm.bias, widened);
  const Matrix repeated(widened.data, gemm.c.rows, gemm.c.cols, 0, DType::fp32);
  cuda::add(queue_, gemm.c, repeated, 1, {}, gemm.c);
}

}  // namespace cuda

bool cuda_has_fp8(int device) {
  return cuda::compute_capability(device) >= cuda::kFirstWithFp8;
}

}  // namespace plumbline
