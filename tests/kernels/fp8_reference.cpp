#include "tests/kernels/fp8_reference.hpp"

#include <array>
#include <cmath>

namespace plumbline::test {
namespace {

double magnitude_of(DType type, int code) {
  const bool e4m3 = type == DType::fp8_e4m3;
  const int mantissa_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 : 15;
  const int exponent = code >> mantissa_bits;
  const int mantissa = code - (exponent << mantissa_bits);
  if (e4m3 && code == 0x7F) return std::nan("");
  if (!e4m3 && exponent == 31) return mantissa == 0 ? HUGE_VAL : std::nan("");
  const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
  return std::ldexp(leading + mantissa, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

using Values = std::array<double, 128>;
Values magnitudes_of(DType type) {
  Values values{};
  for (int code = 0; code < 128; ++code) values[static_cast<std::size_t>(code)] = magnitude_of(type, code);
  return values;
}

}  // namespace

double fp8_value(DType type, std::uint8_t code) {
  const double magnitude = magnitude_of(type, code & 0x7F);
  return code < 0x80 ? magnitude : -magnitude;
}

std::uint8_t fp8_code(DType type, double value) {
  static const Values kE4m3 = magnitudes_of(DType::fp8_e4m3);
  static const Values kE5m2 = magnitudes_of(DType::fp8_e5m2);
  const Values& values = type == DType::fp8_e4m3 ? kE4m3 : kE5m2;
  if (std::isnan(value)) return 0x7F;
  const double size = std::fmin(std::fabs(value), 1e6);  // infinity is equally far from all
  std::size_t best = 0;
  for (std::size_t code = 1; code < values.size() && std::isfinite(values[code]); ++code) {
    const double further = std::fabs(size - values[code]) - std::fabs(size - values[best]);
    if (further < 0 || (further == 0 && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best + (std::signbit(value) ? 0x80 : 0));
}

}  // namespace plumbline::test
