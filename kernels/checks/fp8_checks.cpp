// Requirements of quantization.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

bool absent_or_number(const Matrix& x) {
  return x.data == nullptr || is_number(x);
}

}  // namespace

void fp8_amax(Matrix x, Matrix amax) {
  require(is_storage(x) && is_number(amax), "fp8_amax", "x floating point, amax (1,1) fp32",
          {{"x", x}, {"amax", amax}});
}

void fp8_scales(Matrix amaxes, double largest, int margin, Matrix scales) {
  require(amaxes.rows > 0 && amaxes.dtype == DType::fp32 && has_shape(scales, 2, amaxes.cols, DType::fp32),
          "fp8_scales", "amaxes (H,n), scales (2,n) fp32", {{"amaxes", amaxes}, {"scales", scales}});
  if (largest > 0 && margin >= 0) return;
  throw Error(fmt::format("fp8_scales: largest {}, margin {}; expected one above 0, the other not negative",
                          largest, margin));
}

void fp8_quantize(Matrix x, Matrix scales, Matrix amax, Matrix y) {
  require(is_storage(x) && has_shape(scales, 2, 1, DType::fp32) && absent_or_number(amax) &&
              same_shape(x, y) && is_fp8(y.dtype) && y.contiguous(),
          "fp8_quantize",
          "x floating point, scales (2,1) fp32, amax (1,1) fp32 or empty, y of x's shape, 8-bit, contiguous",
          {{"x", x}, {"scales", scales}, {"amax", amax}, {"y", y}});
}

void fp8_quantize_transpose(Matrix x, Matrix scales, Matrix amax, Matrix y, Matrix transposed) {
  const bool whole = y.data == nullptr || (same_shape(x, y) && y.dtype == transposed.dtype && y.contiguous());
  require(is_storage(x) && has_shape(scales, 2, 1, DType::fp32) && absent_or_number(amax) && whole &&
              is_fp8(transposed.dtype) && has_shape(transposed, x.cols, x.rows) && transposed.contiguous(),
          "fp8_quantize_transpose",
          "x (r,c) floating point, scales (2,1) fp32, amax (1,1) fp32 or empty, y (r,c) or empty and "
          "transposed (c,r) contiguous, of one 8-bit type",
          {{"x", x}, {"scales", scales}, {"amax", amax}, {"y", y}, {"transposed", transposed}});
}

void fp8_transpose(Matrix x, Matrix y) {
  require(is_fp8(x.dtype) && has_shape(y, x.cols, x.rows, x.dtype) && x.contiguous() && y.contiguous(),
          "fp8_transpose", "x (r,c), y (c,r) contiguous, of one 8-bit type", {{"x", x}, {"y", y}});
}

}  // namespace plumbline::checks
