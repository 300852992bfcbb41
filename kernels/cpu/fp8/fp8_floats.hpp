// 8-bit floating point numbers (Micikevicius et al. 2022, arXiv:2209.05433) as fp32 and back, without
// branches, so that loops over them become vector code.
#pragma once

#include <bit>

#include "core/tensor/dtype.hpp"
#include "core/tensor/half_floats.hpp"
#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// A byte in memory and how it is read: sign, exponent, kMantissa bits of mantissa.
struct E4m3 {
  static constexpr DType kType = DType::fp8_e4m3;
  static constexpr std::int32_t kMantissa = 3;
  static constexpr std::int32_t kBias = 7;
  static constexpr std::int32_t kSpecial = 0x7F;  // the first magnitude that is no finite number
  std::uint8_t bits;
};
struct E5m2 {
  static constexpr DType kType = DType::fp8_e5m2;
  static constexpr std::int32_t kMantissa = 2;
  static constexpr std::int32_t kBias = 15;
  static constexpr std::int32_t kSpecial = 0x7C;
  std::uint8_t bits;
};

/// Difference between the exponent biases of fp32 and F, in the exponent's bits.
template <class F>
constexpr std::int32_t kRebias = (127 - F::kBias) << 23;
/// The fp32 number whose last bit is one step between F's smallest numbers, 2^(1 - bias - mantissa). A sum
/// with it is rounded to whole steps, and its low bits count them.
template <class F>
constexpr std::int32_t kStepCounter = (127 + 1 - F::kBias - F::kMantissa + 23) << 23;

PLUMBLINE_INLINE float to_float(float value) {
  return value;
}
PLUMBLINE_INLINE float to_float(Bf16 value) {
  return from_bf16(value.bits);
}
PLUMBLINE_INLINE float to_float(Fp16 value) {
  return from_fp16(value.bits);
}
template <class F>
PLUMBLINE_INLINE float to_float(F code) {
  const std::int32_t magnitude = code.bits & 0x7F;
  const std::int32_t normal = (magnitude << (23 - F::kMantissa)) + kRebias<F>;
  const float steps =
      std::bit_cast<float>(magnitude + kStepCounter<F>) - std::bit_cast<float>(kStepCounter<F>);
  const std::int32_t finite = magnitude < 1 << F::kMantissa ? std::bit_cast<std::int32_t>(steps) : normal;
  const std::int32_t size = magnitude < F::kSpecial ? finite : normal | 0x7F800000;
  return std::bit_cast<float>(static_cast<std::uint32_t>(size) | (code.bits & 0x80U) << 24);
}

/// The nearest, ties to even, to a number that is not beyond the largest finite value; NaN stays NaN.
template <class F>
PLUMBLINE_INLINE F to_fp8(float value) {
  constexpr std::int32_t kCut = 23 - F::kMantissa;
  constexpr std::int32_t kSmallestNormal = kRebias<F> + (1 << 23);
  const auto bits = std::bit_cast<std::int32_t>(value);
  const std::int32_t magnitude = bits & 0x7FFFFFFF;
  const float counted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kStepCounter<F>);
  const std::int32_t subnormal = std::bit_cast<std::int32_t>(counted) - kStepCounter<F>;
  const std::int32_t even = (magnitude >> kCut) & 1;
  const std::int32_t normal = (magnitude - kRebias<F> + (1 << (kCut - 1)) - 1 + even) >> kCut;
  const std::int32_t number = magnitude < kSmallestNormal ? subnormal : normal;
  const std::int32_t size = magnitude > 0x7F800000 ? 0x7F : number;
  return {static_cast<std::uint8_t>(size | (bits >> 24 & 0x80))};
}

/// f(E4m3{}) or f(E5m2{}) for one of the two types.
template <class F>
void with_fp8_type(DType type, F&& f) {
  if (type == DType::fp8_e4m3) return f(E4m3{});
  f(E5m2{});
}

}  // namespace plumbline::cpu
