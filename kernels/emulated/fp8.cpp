// Emulated quantization.
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {

void EmulatedOperators::fp8_amax(Matrix x, Matrix /*amax*/) {
  pass_over("fp8_amax", x.dtype, {x}, {});
}

void EmulatedOperators::fp8_scales(Matrix amaxes, double /*largest*/, int /*margin*/, Matrix scales) {
  pass_over("fp8_scales", amaxes.dtype, {amaxes}, {scales});
}

void EmulatedOperators::fp8_quantize(Matrix x, Matrix /*scales*/, Matrix /*amax*/, Matrix y) {
  pass_over("fp8_quantize", x.dtype, {x}, {y});
}

void EmulatedOperators::fp8_quantize_transpose(Matrix x, Matrix /*scales*/, Matrix /*amax*/, Matrix y,
                                               Matrix transposed) {
  pass_over("fp8_quantize_transpose", x.dtype, {x}, {y, transposed});
}

void EmulatedOperators::fp8_transpose(Matrix x, Matrix y) {
  pass_over("fp8_transpose", x.dtype, {x}, {y});
}

}  // namespace plumbline::emulated
