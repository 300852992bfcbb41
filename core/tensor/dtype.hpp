// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/units.hpp"

namespace plumbline {

/// uint8: masks, one byte 0 or 1 per element. fp8_e4m3, fp8_e5m2: the two encodings of Micikevicius et al.
/// 2022, arXiv:2209.05433. E4M3 has 4 bits of exponent and 3 of mantissa (no infinities, one NaN), E5M2 has 5
/// and 2 (IEEE's rules).
enum class DType : std::uint8_t { fp32, bf16, fp16, int32, uint8, fp8_e4m3, fp8_e5m2 };

constexpr bool is_fp8(DType type) {
  return type == DType::fp8_e4m3 || type == DType::fp8_e5m2;
}

/// The largest finite value of an 8-bit floating point type.
constexpr double largest_finite(DType type) {
  return type == DType::fp8_e4m3 ? 448 : 57344;
}

constexpr std::int64_t size_of(DType type) {
  if (type == DType::uint8 || is_fp8(type)) return 1;
  return type == DType::fp32 || type == DType::int32 ? 4 : 2;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::fp32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::int32:
      return "int32";
    case DType::uint8:
      return "uint8";
    case DType::fp8_e4m3:
      return "fp8_e4m3";
    case DType::fp8_e5m2:
      return "fp8_e5m2";
  }
  return "?";
}

}  // namespace plumbline
