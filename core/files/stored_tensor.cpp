#include "core/files/stored_tensor.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/files/safetensors_header.hpp"

namespace plumbline {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

/// E4M3 (Micikevicius et al. 2022, arXiv:2209.05433): no infinities, one NaN per sign.
float e4m3_to_float(std::uint8_t bits) {
  const int exponent = bits >> 3 & 0xf;
  const int fraction = bits & 0x7;
  float value = 0;
  if (exponent == 0xf && fraction == 0x7) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -9);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 8), exponent - 10);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

/// Factor of an element of a matrix that has them.
float block_scale(const StoredTensor& matrix, std::int64_t index) {
  const std::int64_t cols = matrix.shape[1];
  const std::int64_t block = index / cols / kScaledBlock * scaled_blocks(cols) + index % cols / kScaledBlock;
  float scale = 0;
  std::memcpy(&scale, matrix.scales.data() + block * std::int64_t{sizeof(float)}, sizeof(float));
  return scale;
}

}  // namespace

std::int64_t StoredTensor::elements() const {
  return elements_of(shape);
}

float StoredTensor::at(std::int64_t index) const {
  const std::byte* const place = bytes.data() + index * size_of(type);
  switch (type) {
    case StoredType::fp32:
      return load<float>(place);
    case StoredType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(place)) << 16);
    case StoredType::fp16:
      return half_to_float(load<std::uint16_t>(place));
    case StoredType::fp8_e4m3:
      return e4m3_to_float(load<std::uint8_t>(place)) * (scales.empty() ? 1 : block_scale(*this, index));
    case StoredType::int32:
      return static_cast<float>(load<std::int32_t>(place));
    case StoredType::int64:
      return static_cast<float>(load<std::int64_t>(place));
  }
  return 0;
}

std::string StoredTensor::no_weights() const {
  if (type == StoredType::int32 || type == StoredType::int64)
    return fmt::format("whole numbers ({})", name_of(type));
  return type == StoredType::fp8_e4m3 && scales.empty()
             ? fmt::format("{} without block scales ({})", name_of(type), kScalesSuffix)
             : "";
}

}  // namespace plumbline
