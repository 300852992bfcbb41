// 8-bit floating point numbers (Micikevicius et al. 2022, arXiv:2209.05433) in sixteen fp32 lanes: exact
// loads, and stores that round to the nearest.
#pragma once

#include <bit>

#include "core/dtype.hpp"
#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// A byte in memory and how it is read: sign, exponent, kMantissa bits of mantissa.
struct E4m3 {
  static constexpr DType kType = DType::fp8_e4m3;
  static constexpr std::uint32_t kMantissa = 3;
  static constexpr std::uint32_t kBias = 7;
  static constexpr std::uint32_t kSpecial = 0x7F;  // the first magnitude that is no finite number
  std::uint8_t bits;
};
struct E5m2 {
  static constexpr DType kType = DType::fp8_e5m2;
  static constexpr std::uint32_t kMantissa = 2;
  static constexpr std::uint32_t kBias = 15;
  static constexpr std::uint32_t kSpecial = 0x7C;
  std::uint8_t bits;
};

/// The fp32 number whose last bit is one step between the type's smallest numbers, 2^(1 - bias - mantissa): a
/// sum with it is a whole number of steps, which its low bits count.
template <class F>
constexpr float kStepCounter = std::bit_cast<float>((127 + 1 - F::kBias - F::kMantissa + 23) << 23);

template <class F>
PLUMBLINE_INLINE Lanes decoded(LaneBits codes) {
  constexpr auto kCounter = std::bit_cast<std::uint32_t>(kStepCounter<F>);
  const LaneBits magnitude = codes & 0x7FU;
  const LaneBits normal = (magnitude << (23 - F::kMantissa)) + ((127 - F::kBias) << 23);
  const LaneBits subnormal = (LaneBits)((Lanes)(magnitude + kCounter) - kStepCounter<F>);
  const LaneBits finite = magnitude < (1U << F::kMantissa) ? subnormal : normal;
  const LaneBits size = magnitude < F::kSpecial ? finite : normal | 0x7F800000U;
  return (Lanes)(size | (codes & 0x80U) << 24);
}

/// The nearest code, ties to even, of lanes that are not beyond the largest finite value; NaN stays NaN.
template <class F>
PLUMBLINE_INLINE LaneBits encoded(Lanes v) {
  constexpr auto kCounter = std::bit_cast<std::uint32_t>(kStepCounter<F>);
  constexpr std::uint32_t kCut = 23 - F::kMantissa;
  constexpr std::uint32_t kSmallestNormal = (127 + 1 - F::kBias) << 23;
  const LaneBits bits = (LaneBits)v;
  const LaneBits magnitude = bits & 0x7FFFFFFFU;
  const LaneBits subnormal = (LaneBits)((Lanes)magnitude + kStepCounter<F>)-kCounter;
  const LaneBits even = (magnitude >> kCut) & 1U;
  const LaneBits normal = (magnitude - ((127 - F::kBias) << 23) + ((1U << (kCut - 1)) - 1) + even) >> kCut;
  const LaneBits number = magnitude < kSmallestNormal ? subnormal : normal;
  const LaneBits size = magnitude > 0x7F800000U ? LaneBits{} + 0x7FU : number;
  return size | ((bits >> 24) & 0x80U);
}

template <class F>
PLUMBLINE_INLINE Lanes load_fp8(const F* p) {
  LaneBits codes;
  for (int i = 0; i < kLanes; ++i) codes[i] = p[i].bits;  // becomes one widening load
  return decoded<F>(codes);
}
template <class F>
PLUMBLINE_INLINE void store_fp8(F* p, Lanes v) {
  const LaneBits codes = encoded<F>(v);
  for (int i = 0; i < kLanes; ++i) p[i].bits = static_cast<std::uint8_t>(codes[i]);  // one narrowing store
}

PLUMBLINE_INLINE Lanes load(const E4m3* p, All /*part*/) {
  return load_fp8(p);
}
PLUMBLINE_INLINE Lanes load(const E5m2* p, All /*part*/) {
  return load_fp8(p);
}
PLUMBLINE_INLINE void store(E4m3* p, Lanes v, All /*part*/) {
  store_fp8(p, v);
}
PLUMBLINE_INLINE void store(E5m2* p, Lanes v, All /*part*/) {
  store_fp8(p, v);
}

/// f(E4m3{}) or f(E5m2{}) for one of the two types.
template <class F>
void with_fp8_type(DType type, F&& f) {
  if (type == DType::fp8_e4m3) return f(E4m3{});
  f(E5m2{});
}

}  // namespace plumbline::cpu
