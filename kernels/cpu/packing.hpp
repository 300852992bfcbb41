// Packing of operands for packed_gemm.cpp: fp32 copies in the order in which they are read.
#pragma once

#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// An operand of a product seen as (rows, k): element (i, l) is at data[i·row_step + l·k_step], one of the
/// steps is 1.
template <class T>
struct PackedOperand {
  const T* data;
  std::int64_t row_step, k_step;
  PLUMBLINE_INLINE PackedOperand from(std::int64_t row, std::int64_t k) const {
    return {data + row * row_step + k * k_step, row_step, k_step};
  }
};

PLUMBLINE_INLINE Eight load_eight(const float* p) {
  Eight v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
using EightBits = std::uint32_t __attribute__((vector_size(32)));
template <class T>
PLUMBLINE_INLINE EightBits load_eight_bits(const T* p) {
  using Bits = std::uint16_t __attribute__((vector_size(16)));
  Bits bits;
  std::memcpy(&bits, p, sizeof bits);
  return __builtin_convertvector(bits, EightBits);
}
PLUMBLINE_INLINE Eight load_eight(const Bf16* p) {
  return (Eight)(load_eight_bits(p) << 16);
}
PLUMBLINE_INLINE Eight load_eight(const Fp16* p) {
  return widened_halves<Eight>(load_eight_bits(p));
}
PLUMBLINE_INLINE void store_eight(float* p, Eight v) {
  std::memcpy(p, &v, sizeof v);
}
/// Rounds as store(Bf16*, Lanes, All) does.
PLUMBLINE_INLINE void store_eight(Bf16* p, Eight v) {
  using Ints = std::int32_t __attribute__((vector_size(32)));
  const EightBits bits = (EightBits)v;
  const EightBits rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const EightBits quiet = (bits >> 16) | 0x40U;
  const EightBits nan = (EightBits)((Ints)(0x7f800000U - (bits & 0x7fffffffU)) >> 31);
  const EightBits result = rounded ^ ((rounded ^ quiet) & nan);
  for (int i = 0; i < 8; ++i) p[i].bits = static_cast<std::uint16_t>(result[i]);
}
PLUMBLINE_INLINE void store_eight(Fp16* p, Eight v) {
  const EightBits result = rounded_halves<EightBits>(v);
  for (int i = 0; i < 8; ++i) p[i].bits = static_cast<std::uint16_t>(result[i]);
}

/// to[l·16 + i] = element l of row(i), for eight i and l. Halves of rows are paired, so that only a
/// transpose of four by four numbers in each half of a register remains.
template <class F>
PLUMBLINE_INLINE void transpose_eight(F&& row, float* to) {
  constexpr std::int64_t width = 16;
#pragma GCC unroll 2
  for (std::int64_t half = 0; half < 8; half += 4) {
    Eight rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i] = __builtin_shufflevector(load_quarter(row(i) + half), load_quarter(row(i + 4) + half), 0, 1, 2,
                                        3, 4, 5, 6, 7);
    }
    const Eight low01 = __builtin_shufflevector(rows[0], rows[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight high01 = __builtin_shufflevector(rows[0], rows[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const Eight low23 = __builtin_shufflevector(rows[2], rows[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight high23 = __builtin_shufflevector(rows[2], rows[3], 2, 10, 3, 11, 6, 14, 7, 15);
    float* out = to + half * width;
    store_eight(out, __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13));
    store_eight(out + width, __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15));
    store_eight(out + 2 * width, __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13));
    store_eight(out + 3 * width, __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15));
  }
}

/// Eight rows that are contiguous along k into their half of a panel, to[l·16 + i]; only `count` of them
/// exist, the others become copies of the first.
template <class T>
PLUMBLINE_INLINE void pack_half_panel(const T* from, std::int64_t row_step, std::int64_t count,
                                      std::int64_t k, float* to) {
  std::int64_t l = 0;
  if (count >= 8) {
    for (; l + 8 <= k; l += 8) {
      transpose_eight(
          [&](std::int64_t i) __attribute__((always_inline)) { return from + i * row_step + l; },
          to + l * 16);
    }
  } else {
    for (; l + 8 <= k; l += 8) {
      transpose_eight(
          [&](std::int64_t i)
              __attribute__((always_inline)) { return from + (i < count ? i : 0) * row_step + l; },
          to + l * 16);
    }
  }
  for (; l < k; ++l) {
    for (std::int64_t i = 0; i < 8; ++i) to[l * 16 + i] = widened(from[(i < count ? i : 0) * row_step + l]);
  }
}

/// Panels of sixteen rows, `panel_step` floats apart: to[panel·panel_step + l·16 + i] = element (16·panel
/// + i, l), any number for rows that do not exist.
template <class T>
PLUMBLINE_INLINE void pack_panels(const PackedOperand<T>& x, std::int64_t rows, std::int64_t k, float* to,
                                  std::int64_t panel_step) {
  const std::int64_t whole = rows / 16;
  if (x.row_step == 1) {
    for (std::int64_t l = 0; l < k; ++l) {
      const T* from = x.data + l * x.k_step;
      float* out = to + l * 16;
      for (std::int64_t panel = 0; panel < whole; ++panel, from += 16, out += panel_step) {
        store_eight(out, load_eight(from));
        store_eight(out + 8, load_eight(from + 8));
      }
      if (rows % 16 != 0) store(out, load(from, First{rows % 16}), All{});
    }
    return;
  }
  for (std::int64_t row = 0; row < rows; row += 8) {
    pack_half_panel(x.data + row * x.row_step, x.row_step, rows - row, k,
                    to + row / 16 * panel_step + row % 16);
  }
}

/// to[i·k_room + l] = element (i, l) of rows that are contiguous along k.
template <class T>
PLUMBLINE_INLINE void pack_rows(const PackedOperand<T>& x, std::int64_t rows, std::int64_t k,
                                std::int64_t k_room, float* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* from = x.data + i * x.row_step;
    float* row = to + i * k_room;
    std::int64_t l = 0;
    for (; l + 8 <= k; l += 8) store_eight(row + l, load_eight(from + l));
    for (; l < k; ++l) row[l] = widened(from[l]);
  }
}

/// Tiles of `rows_of(rows left)` rows that are contiguous along the rows: to[first·k_room + l·count + i] =
/// element (first + i, l) of a tile of `count` rows from `first`, k_room >= k + 8. Eight numbers are copied
/// at a time while at least eight of the `readable` rows are left; the excess is overwritten by the following
/// writes.
template <class T, class F>
PLUMBLINE_INLINE void pack_tiles(const PackedOperand<T>& x, std::int64_t rows, std::int64_t readable,
                                 std::int64_t k, std::int64_t k_room, float* to, F&& rows_of) {
  for (std::int64_t l = 0; l < k; ++l) {
    const T* from = x.data + l * x.k_step;
    for (std::int64_t first = 0; first < rows;) {
      const std::int64_t count = rows_of(rows - first);
      float* out = to + first * k_room + l * count;
      if (first + 8 <= readable) {
        store_eight(out, load_eight(from + first));
      } else {
        for (std::int64_t i = 0; i < count; ++i) out[i] = widened(from[first + i]);
      }
      first += count;
    }
  }
}

}  // namespace plumbline::cpu
