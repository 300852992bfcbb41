// Quantization to 8-bit floating point types on CUDA: checks, then a kernel each. All run on every device;
// the products do not.
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline::cuda {

void CudaOperators::fp8_amax(Matrix x, Matrix amax) {
  cuda::fp8_amax(queue_, x, amax);
}

void CudaOperators::fp8_scales(Matrix amaxes, double largest, int margin, Matrix scales) {
  cuda::fp8_scales(queue_, amaxes, largest, margin, scales);
}

void CudaOperators::fp8_quantize(Matrix x, Matrix scales, Matrix amax, Matrix y) {
  cuda::fp8_quantize(queue_, x, scales, amax, y);
}

void CudaOperators::fp8_quantize_transpose(Matrix x, Matrix scales, Matrix amax, Matrix y,
                                           Matrix transposed) {
  cuda::fp8_quantize_transpose(queue_, x, scales, amax, y, transposed);
}

void CudaOperators::fp8_transpose(Matrix x, Matrix y) {
  cuda::fp8_transpose(queue_, x, y);
}

}  // namespace plumbline::cuda
