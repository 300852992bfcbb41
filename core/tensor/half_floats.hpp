// 16-bit floats as numbers and back, without branches, so that loops over them become vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace plumbline {

/// bf16 is the upper half of a float.
inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The nearest bf16, ties to even; a NaN stays one.
inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  // Rounding may carry a NaN's mantissa into infinity: a NaN is truncated instead and made quiet.
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded);
}

inline float from_fp16(std::uint16_t bits) {
  // Shifted into place the exponent is 112 too small; a product puts that right for denormals as well.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t whole = (bits & 0x7c00U) == 0x7c00U ? magnitude | 0x7f800000U : finite;
  return std::bit_cast<float>(whole | static_cast<std::uint32_t>(bits & 0x8000U) << 16);
}

/// The nearest fp16, ties to even; from 65,520 on infinity; a NaN stays one.
inline std::uint16_t to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14 halves are multiples of 2^-24: adding 0.5, whose last bit is 2^-24, rounds to one.
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t infinite_or_nan = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < (113U << 23) ? denormal : normal;
  const std::uint32_t half = magnitude >= (143U << 23) ? infinite_or_nan : finite;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
}

}  // namespace plumbline
