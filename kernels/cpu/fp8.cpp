// Quantization to 8-bit floating point types, and products of what is quantized.
#include "core/error.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {

void CpuOperators::fp8_amax(Matrix x, Matrix amax) {
  require_fp8_amax(x, amax);
  throw Error("fp8_amax: not there yet on the CPU");
}

void CpuOperators::fp8_scales(Matrix amaxes, double largest, int margin, Matrix scales) {
  require_fp8_scales(amaxes, largest, margin, scales);
  throw Error("fp8_scales: not there yet on the CPU");
}

void CpuOperators::fp8_quantize(Matrix x, Matrix scales, Matrix amax, Matrix y) {
  require_fp8_quantize(x, scales, amax, y);
  throw Error("fp8_quantize: not there yet on the CPU");
}

void CpuOperators::fp8_transpose(Matrix x, Matrix y) {
  require_fp8_transpose(x, y);
  throw Error("fp8_transpose: not there yet on the CPU");
}

void CpuOperators::fp8_gemm(const Gemm& /*gemm*/) {
  throw Error("gemm: 8-bit operands are not there yet on the CPU");
}

}  // namespace plumbline::cpu
