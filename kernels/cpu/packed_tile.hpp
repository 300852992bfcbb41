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

  /// Fetches the cache lines of a tile, which is read or written hundreds of cycles later.
  PLUMBLINE_INLINE void prefetch(std::int64_t rows, std::int64_t cols) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      __builtin_prefetch(to + i * stride, 1);
      __builtin_prefetch(to + i * stride + cols - 1, 1);
    }
  }
  PLUMBLINE_INLINE Outcome from(std::int64_t row, std::int64_t col) const {
    return {to + row * stride + col,
            stride,
            accumulate,
            before == nullptr ? nullptr : before + row * before_stride + col,
            before_stride,
            bias == nullptr ? nullptr : bias + col};
  }
};

/// Rows of fp32 sums, sixteen each.
struct Sums {
  float* to;
  std::int64_t stride;
  bool accumulate;
};

/// Products of kRows rows of A from `a` by a panel of B. kAlongK: a row of A is contiguous; otherwise its
/// numbers are `a_step` apart, and those of different rows follow each other.
template <int kRows, bool kAlongK>
PLUMBLINE_INLINE void multiply_tile(std::int64_t k, const float* a, std::int64_t a_step, const float* b,
                                    const Sums& sums) {
  Eight tile[kRows][2];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) tile[i][0] = tile[i][1] = Eight{};
#pragma GCC unroll 4
  for (std::int64_t l = 0; l < k; ++l) {
    const Eight b0 = load_eight(b);
    const Eight b1 = load_eight(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const float x = kAlongK ? a[i * a_step + l] : a[i];
      tile[i][0] += b0 * x;
      tile[i][1] += b1 * x;
    }
    if (!kAlongK) a += a_step;
    b += kTileCols;
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::int64_t half = 0; half < 2; ++half) {
      float* to = sums.to + i * sums.stride + 8 * half;
      store_eight(to, sums.accumulate ? tile[i][half] + load_eight(to) : tile[i][half]);
    }
  }
}

/// C of a row of a tile, of which `part` is there.
template <class C, class Bias, class Part>
PLUMBLINE_INLINE void finish_row(const float* sums, const Outcome<C, Bias>& out, Part part) {
  Lanes sum = load(sums, All{});
  if (out.before != nullptr) sum += load(out.before, part);
  if (out.accumulate) sum += load(out.to, part);
  if (out.bias != nullptr) sum += load(out.bias, part);
  store(out.to, sum, part);
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
