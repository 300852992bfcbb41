// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/units.hpp"

namespace plumbline {

/// uint8: masks, one byte 0 or 1 per element.
enum class DType : std::uint8_t { fp32, bf16, fp16, int32, uint8 };

constexpr std::int64_t size_of(DType type) {
  if (type == DType::uint8) return 1;
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
  }
  return "?";
}

}  // namespace plumbline
