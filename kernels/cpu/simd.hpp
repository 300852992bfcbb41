// Sixteen fp32 lanes in GCC vector extensions, and the loads, stores and functions the CPU operators share.
// The lane count is the same on every instruction set, and so is the order of every sum.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/tensor/half_floats.hpp"

// A function so marked is compiled once per x86-64 level and picked when the program is loaded. Everything it
// calls in its loops must be PLUMBLINE_INLINE, or it would be compiled for the lowest level only. Sanitizers
// do not survive the resolver, which runs before they are set up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLUMBLINE_SANITIZED)
#define PLUMBLINE_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PLUMBLINE_MULTIVERSION
#endif
#define PLUMBLINE_INLINE __attribute__((always_inline)) inline

namespace plumbline::cpu {

/// A bfloat16 in memory: the upper half of an fp32.
struct Bf16 {
  std::uint16_t bits;
};
/// An IEEE half in memory.
struct Fp16 {
  std::uint16_t bits;
};

constexpr std::int64_t kLanes = 16;
using Lanes = float __attribute__((vector_size(64)));
using LaneBits = std::uint32_t __attribute__((vector_size(64)));
using LaneInts = std::int32_t __attribute__((vector_size(64)));

// Lanes are chosen by bits, not by comparing. Where registers are narrower than sixteen lanes, GCC takes a
// comparison apart lane by lane (two to five times the time of the function with AVX2), but not a shift.

/// All bits of a lane whose sign bit is set, none of another.
PLUMBLINE_INLINE LaneBits sign_mask(LaneBits bits) {
  return (LaneBits)((LaneInts)bits >> 31);
}
PLUMBLINE_INLINE LaneBits nan_mask(Lanes v) {
  return sign_mask(0x7f800000U - ((LaneBits)v & 0x7fffffffU));
}
PLUMBLINE_INLINE LaneBits choose(LaneBits mask, LaneBits yes, LaneBits no) {
  return no ^ ((yes ^ no) & mask);
}

// The functions of core/tensor/half_floats.hpp on vectors. Own code on all processors: their instructions for
// halves cannot be called where a function is compiled for several levels.

/// All bits of a lane whose sign bit is set, none of another.
template <class Bits>
PLUMBLINE_INLINE Bits sign_lanes(Bits bits) {
  return 0U - (bits >> 31);
}
/// Halves in the low bits of each lane.
template <class Numbers, class Bits>
PLUMBLINE_INLINE Numbers widened_halves(Bits bits) {
  const Bits magnitude = bits & 0x7fffU;
  const Bits finite = (Bits)((Numbers)(magnitude << 13) * 0x1p112F);
  const Bits infinite_or_nan = sign_lanes(0x7bffU - magnitude) & 0x7f800000U;
  return (Numbers)(finite | infinite_or_nan | (bits & 0x8000U) << 16);
}
/// The nearest halves, in the low bits of each lane.
template <class Bits, class Numbers>
PLUMBLINE_INLINE Bits rounded_halves(Numbers numbers) {
  const Bits bits = (Bits)numbers;
  const Bits magnitude = bits & 0x7fffffffU;
  const Bits denormal = (Bits)((Numbers)magnitude + 0.5F) - 0x3f000000U;
  const Bits normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const Bits small = sign_lanes(magnitude - (113U << 23));
  const Bits large = sign_lanes((143U << 23) - 1U - magnitude);
  const Bits infinite_or_nan = 0x7c00U | (sign_lanes(0x7f800000U - magnitude) & 0x200U);
  const Bits finite = (denormal & small) | (normal & ~small & ~large);
  return finite | (infinite_or_nan & large) | (bits >> 16 & 0x8000U);
}

/// Number of valid elements among sixteen: all, the first `count` at the end of a row, or the first `count`
/// with the others readable and writable but meaningless.
struct All {};
struct First {
  std::int64_t count;
};
struct FirstOfAll {
  std::int64_t count;
};

/// Calls f(offset, All or First) so that [0, n) is covered in steps of sixteen.
template <class F>
PLUMBLINE_INLINE void for_lanes(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, All{});
  if (i < n) f(i, First{n - i});
}
/// The same where [n, limit) also belongs to the row: whole loads as long as they stay below `limit`.
template <class F>
PLUMBLINE_INLINE void for_lanes(std::int64_t n, std::int64_t limit, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, All{});
  if (i == n) return;
  if (i + kLanes <= limit) {
    f(i, FirstOfAll{n - i});
  } else {
    f(i, First{n - i});
  }
}
// A lambda body for for_lanes.
#define PLUMBLINE_LANES (std::int64_t i, auto part) __attribute__((always_inline))

PLUMBLINE_INLINE Lanes splat(float x) {
  return Lanes{} + x;
}

PLUMBLINE_INLINE Lanes load(const float* p, All /*part*/) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
PLUMBLINE_INLINE Lanes load(const Bf16* p, All /*part*/) {
  LaneBits bits;
  for (int i = 0; i < kLanes; ++i) bits[i] = p[i].bits;  // becomes one widening load
  return (Lanes)(bits << 16);
}
PLUMBLINE_INLINE Lanes load(const Fp16* p, All /*part*/) {
  LaneBits bits;
  for (int i = 0; i < kLanes; ++i) bits[i] = p[i].bits;
  return widened_halves<Lanes>(bits);
}
using Quarter = float __attribute__((vector_size(16)));

PLUMBLINE_INLINE float widened(float x) {
  return x;
}
PLUMBLINE_INLINE float widened(Bf16 x) {
  return from_bf16(x.bits);
}
PLUMBLINE_INLINE float widened(Fp16 x) {
  return from_fp16(x.bits);
}
PLUMBLINE_INLINE Quarter load_quarter(const float* p) {
  Quarter v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
PLUMBLINE_INLINE auto load_quarter_bits(const T* p) {
  using Bits = std::uint16_t __attribute__((vector_size(8)));
  using Wide = std::uint32_t __attribute__((vector_size(16)));
  Bits bits;
  std::memcpy(&bits, p, sizeof bits);
  return __builtin_convertvector(bits, Wide);
}
PLUMBLINE_INLINE Quarter load_quarter(const Bf16* p) {
  return (Quarter)(load_quarter_bits(p) << 16);
}
PLUMBLINE_INLINE Quarter load_quarter(const Fp16* p) {
  return widened_halves<Quarter>(load_quarter_bits(p));
}
/// The first `count` of four elements, or all of them; the rest are zero.
template <class T>
PLUMBLINE_INLINE Quarter load_quarter(const T* p, std::int64_t count) {
  if (count >= 4) return load_quarter(p);
  Quarter v{};
  if (count > 0) v[0] = widened(p[0]);
  if (count > 1) v[1] = widened(p[1]);
  if (count > 2) v[2] = widened(p[2]);
  return v;
}
/// Absent lanes read as zero. Combined in registers: reading a buffer whole that was written in parts waits
/// until the writes have left the store buffer. That takes as long as 128 elements.
template <class T>
PLUMBLINE_INLINE Lanes load(const T* p, First part) {
  const std::int64_t count = part.count;
  Quarter quarters[4] = {load_quarter(p, count), load_quarter(p + 4, count - 4),
                         load_quarter(p + 8, count - 8), load_quarter(p + 12, count - 12)};
  const auto low = __builtin_shufflevector(quarters[0], quarters[1], 0, 1, 2, 3, 4, 5, 6, 7);
  const auto high = __builtin_shufflevector(quarters[2], quarters[3], 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

template <class T>
PLUMBLINE_INLINE Lanes load(const T* p, FirstOfAll /*part*/) {
  return load(p, All{});
}

/// Element by element, which becomes whole stores. Where registers are narrower than sixteen lanes, GCC
/// copies a vector of sixteen in parts of 16 bytes through general registers (half of the time of a sum of
/// two matrices with AVX2).
PLUMBLINE_INLINE void store(float* p, Lanes v, All /*part*/) {
  for (int i = 0; i < kLanes; ++i) p[i] = v[i];
}
/// Rounds to the nearest bf16, ties to even; a NaN stays a NaN.
PLUMBLINE_INLINE void store(Bf16* p, Lanes v, All /*part*/) {
  const LaneBits bits = (LaneBits)v;
  const LaneBits rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const LaneBits quiet = (bits >> 16) | 0x40U;
  const LaneBits result = choose(nan_mask(v), quiet, rounded);
  for (int i = 0; i < kLanes; ++i) p[i].bits = static_cast<std::uint16_t>(result[i]);  // one narrowing store
}
/// Rounds to the nearest fp16, ties to even; from 65,520 on infinity; a NaN stays a NaN.
PLUMBLINE_INLINE void store(Fp16* p, Lanes v, All /*part*/) {
  const LaneBits result = rounded_halves<LaneBits>(v);
  for (int i = 0; i < kLanes; ++i) p[i].bits = static_cast<std::uint16_t>(result[i]);
}
template <class T>
PLUMBLINE_INLINE void store(T* p, Lanes v, First part) {
  T buffer[kLanes];
  store(buffer, v, All{});
  std::int64_t done = 0;
  const auto move = [&](std::int64_t count) __attribute__((always_inline)) {
    std::memcpy(p + done, buffer + done, static_cast<std::size_t>(count) * sizeof(T));
    done += count;
  };
  if ((part.count & 8) != 0) move(8);
  if ((part.count & 4) != 0) move(4);
  if ((part.count & 2) != 0) move(2);
  if ((part.count & 1) != 0) move(1);
}

template <class T>
PLUMBLINE_INLINE void store(T* p, Lanes v, FirstOfAll /*part*/) {
  store(p, v, All{});
}

/// `v` where the element is there, `other` where it is not.
PLUMBLINE_INLINE Lanes keep(Lanes v, Lanes /*other*/, All /*part*/) {
  return v;
}
template <class Some>
PLUMBLINE_INLINE Lanes keep(Lanes v, Lanes other, Some part) {
  const LaneBits index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return index < static_cast<std::uint32_t>(part.count) ? v : other;
}

/// Eight fp32 lanes: one AVX2 register.
using Eight = float __attribute__((vector_size(32)));

PLUMBLINE_INLINE Eight low_half(Lanes v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
PLUMBLINE_INLINE Eight high_half(Lanes v) {
  return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
PLUMBLINE_INLINE Lanes joined(Eight low, Eight high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// A loop's sum of every lane, in halves. Where registers are narrower than sixteen lanes, GCC keeps a
/// loop-carried Lanes in memory: a sum of squares with AVX2 takes four times as long.
struct LaneSum {
  Eight low{}, high{};
  PLUMBLINE_INLINE void operator+=(Lanes v) {
    low += low_half(v);
    high += high_half(v);
  }
  PLUMBLINE_INLINE Lanes lanes() const { return joined(low, high); }
};

/// The largest of every lane of a loop, in halves like a LaneSum. A NaN is passed over.
struct LaneMaximum {
  Eight low = Eight{} - __builtin_inff();
  Eight high = Eight{} - __builtin_inff();
  PLUMBLINE_INLINE void take(Lanes v) {
    const Eight a = low_half(v);
    const Eight b = high_half(v);
    low = a > low ? a : low;  // of eight lanes that is one instruction with AVX2
    high = b > high ? b : high;
  }
  PLUMBLINE_INLINE Lanes lanes() const { return joined(low, high); }
};

PLUMBLINE_INLINE float sum(Lanes v) {
  float lane[kLanes];
  std::memcpy(lane, &v, sizeof v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}
PLUMBLINE_INLINE float largest(Lanes v) {
  float lane[kLanes];
  std::memcpy(lane, &v, sizeof v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}

PLUMBLINE_INLINE float sum(const LaneSum& total) {
  return sum(total.lanes());
}
PLUMBLINE_INLINE float largest(const LaneMaximum& best) {
  return largest(best.lanes());
}

/// e^x within 2 units in the last place: x = n·ln 2 + r, a polynomial of degree 7 in r (coefficients of
/// Moshier's Cephes expf), and n added to the exponent. Below -87.33, where the result would be subnormal, 0;
/// above 88.72, infinity; NaN stays NaN.
PLUMBLINE_INLINE Lanes exp(Lanes x) {
  constexpr float kLowest = -87.33F;
  constexpr float kHighest = 88.72F;
  constexpr float kRound = 12582912.0F;  // 1.5·2²³: adding it leaves the nearest integer in the low bits
  const Lanes shifted = x * 1.44269504088896341F + kRound;
  const Lanes n = shifted - kRound;
  const Lanes r = x - n * 0.693359375F + n * 2.12194440e-4F;
  Lanes p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const LaneBits y = (LaneBits)p + ((LaneBits)shifted << 23);
  const LaneBits number = ~nan_mask(x);  // the difference of a NaN has any sign
  const LaneBits below = sign_mask((LaneBits)(x - kLowest)) & number;
  const LaneBits within = ~sign_mask((LaneBits)(kHighest - x)) & number;
  return (Lanes)(choose(within, y, (LaneBits)(x + __builtin_inff())) & ~below);
}

/// 1/(1 + e^-x).
PLUMBLINE_INLINE Lanes sigmoid(Lanes x) {
  return 1.0F / (1.0F + exp(-x));
}

}  // namespace plumbline::cpu
