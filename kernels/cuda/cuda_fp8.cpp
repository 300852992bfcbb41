// Quantization to 8-bit floating point types on CUDA: checks, then a kernel each.
#include "core/error.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/cuda_backend.hpp"

namespace plumbline::cuda {

void CudaOperators::require_fp8_units(const char* op) const {
  constexpr int kFirst = 89;  // Ada; 90 is Hopper
  if (capability_ >= kFirst) return;
  throw Error(std::string(op) + ": device " + std::to_string(device_) + " has compute capability " +
              std::to_string(capability_ / 10) + "." + std::to_string(capability_ % 10) +
              ", matrix units for 8-bit floating point begin with 8.9; set fp8_format to none");
}

void CudaOperators::fp8_amax(Matrix x, Matrix amax) {
  require_fp8_amax(x, amax);
  require_fp8_units("fp8_amax");
  cuda::fp8_amax(queue_, x, amax);
}

void CudaOperators::fp8_scales(Matrix amaxes, double largest, int margin, Matrix scales) {
  require_fp8_scales(amaxes, largest, margin, scales);
  require_fp8_units("fp8_scales");
  cuda::fp8_scales(queue_, amaxes, largest, margin, scales);
}

void CudaOperators::fp8_quantize(Matrix x, Matrix scales, Matrix amax, Matrix y) {
  require_fp8_quantize(x, scales, amax, y);
  require_fp8_units("fp8_quantize");
  cuda::fp8_quantize(queue_, x, scales, amax, y);
}

void CudaOperators::fp8_transpose(Matrix x, Matrix y) {
  require_fp8_transpose(x, y);
  require_fp8_units("fp8_transpose");
  cuda::fp8_transpose(queue_, x, y);
}

}  // namespace plumbline::cuda
