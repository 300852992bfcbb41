// The innermost loop of a packed product: up to six rows and sixteen columns of C, summed in registers.
#pragma once

#include "kernels/cpu/packing.hpp"

namespace plumbline::cpu {

inline constexpr std::int64_t kTileRows = 6;
inline constexpr std::int64_t kTileCols = 16;

/// Rows of the next tile: six, but no fewer than four at the end where that is possible (few rows leave too
/// few sums to fill the pipeline).
PLUMBLINE_INLINE std::int64_t tile_rows(std::int64_t left) {
  if (left <= kTileRows) return left;
  return left == 7 || left == 8 ? 4 : left == 9 ? 5 : kTileRows;
}

/// A's rows as fp32: element (i, l) at data[i·row_step + l·k_step], in packed tiles of `count` rows
/// data[first·row_step + l·count + i - first].
struct Left {
  const float* data;
  std::int64_t row_step;
  std::int64_t k_step;  // 0: packed tiles
};

/// C, the sums of earlier passes over k, and the terms added to the sum of this pass.
template <class C, class Bias>
struct Outcome {
  C* to;
  std::int64_t stride;
  bool accumulate = false;
  const float* before = nullptr;  // of a row of tiles; or null
  std::int64_t before_stride = 0;
  const Bias* bias = nullptr;

  PLUMBLINE_INLINE Outcome from(std::int64_t row, std::int64_t col) const {
    return {to + row * stride + col,
            stride,
            accumulate,
            before == nullptr ? nullptr : before + row * before_stride + col,
            before_stride,
            bias == nullptr ? nullptr : bias + col};
  }
};

/// C of a tile whose `sums` are all there.
template <int kRows, class C, class Bias>
PLUMBLINE_INLINE void finish_whole(Eight (&sums)[kRows][2], const Outcome<C, Bias>& out) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    C* to = out.to + i * out.stride;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      Eight sum = sums[i][half];
      if (out.before != nullptr) sum += load_eight(out.before + i * out.before_stride + 8 * half);
      if (out.accumulate) sum += load_eight(to + 8 * half);
      if (out.bias != nullptr) sum += load_eight(out.bias + 8 * half);
      store_eight(to + 8 * half, sum);
    }
  }
}

/// The same where only the first `cols` of sixteen columns are there.
template <int kRows, class C, class Bias>
PLUMBLINE_INLINE void finish_part(Eight (&sums)[kRows][2], const Outcome<C, Bias>& out, std::int64_t cols) {
  const First part{cols};
  float tile[kRows][kTileCols];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    store_eight(tile[i], sums[i][0]);
    store_eight(tile[i] + 8, sums[i][1]);
  }
  for (int i = 0; i < kRows; ++i) {
    C* to = out.to + i * out.stride;
    Lanes sum = load(tile[i], All{});
    if (out.before != nullptr) sum += load(out.before + i * out.before_stride, part);
    if (out.accumulate) sum += load(to, part);
    if (out.bias != nullptr) sum += load(out.bias, part);
    store(to, sum, part);
  }
}

/// Multiplies kRows rows of A from `a` by a panel of B. kAlongK: a row of A is contiguous; otherwise its
/// numbers are `a_step` apart, and those of different rows follow each other.
template <int kRows, bool kAlongK, class C, class Bias>
PLUMBLINE_INLINE void multiply_tile(std::int64_t k, const float* a, std::int64_t a_step, const float* b,
                                    const Outcome<C, Bias>& out, std::int64_t cols) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows;
       ++i) {  // C is read, or its cache lines fetched to be written, hundreds of cycles later
    __builtin_prefetch(out.to + i * out.stride, 1);
    __builtin_prefetch(out.to + i * out.stride + cols - 1, 1);
  }
  Eight sums[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = Eight{};
#pragma GCC unroll 4
  for (std::int64_t l = 0; l < k; ++l) {
    const Eight b0 = load_eight(b);
    const Eight b1 = load_eight(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const float x = kAlongK ? a[i * a_step + l] : a[i];
      sums[i][0] += b0 * x;
      sums[i][1] += b1 * x;
    }
    if (!kAlongK) a += a_step;
    b += kTileCols;
  }
  if (cols == kTileCols) {
    finish_whole(sums, out);
  } else {
    finish_part(sums, out, cols);
  }
}

/// f(std::integral_constant<int, rows>) for 1 to 6 rows.
template <class F>
PLUMBLINE_INLINE void with_rows(std::int64_t rows, F&& f) {
  switch (rows) {
    case 6:
      return f(std::integral_constant<int, 6>{});
    case 5:
      return f(std::integral_constant<int, 5>{});
    case 4:
      return f(std::integral_constant<int, 4>{});
    case 3:
      return f(std::integral_constant<int, 3>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    default:
      return f(std::integral_constant<int, 1>{});
  }
}

}  // namespace plumbline::cpu
