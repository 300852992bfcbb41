// Quantizing to FP8 with the transpose alongside. Floor: reads x and writes a byte per element, twice if both
// are wanted.
//
// A warp reads 128 elements of a row, four per lane, of 16 rows before it uses the first, to keep enough
// loads in flight for HBM's latency. Four codes are a word; from there on the tile is that of
// fp8_transpose.cu.
#include <cuda_fp8.h>

#include "kernels/cuda/kernels/byte_tiles.cuh"
#include "kernels/cuda/kernels/fp8_amax.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T element[4];
};

template <class T>
struct Source {
  View<const T> x;  // (rows, cols)
  const float* scale;
  float* amax;                     // nullptr: not asked for
  View<unsigned char> y;           // (rows, cols); data nullptr: not asked for
  View<unsigned char> transposed;  // (cols, rows)
  std::int64_t rows, cols;
  bool fours;                      // true if rows of x begin where four elements may be read at once
  bool y_words, transposed_words;  // true if rows begin at 4-byte boundaries
};

/// The elements at [col, col + 4) of a row of `cols`, zeros past its end.
template <class T>
__device__ inline Four<T> load_four(const T* row, std::int64_t col, std::int64_t cols, bool fours) {
  if (fours && col + 4 <= cols) return *reinterpret_cast<const Four<T>*>(row + col);
  Four<T> four;
#pragma unroll
  for (int i = 0; i < 4; ++i) four.element[i] = col + i < cols ? row[col + i] : from_float<T>(0.0F);
  return four;
}

/// Their codes, the first in the lowest byte; `largest` has seen them.
template <__nv_fp8_interpretation_t kType, class T>
__device__ inline unsigned word_of(const Four<T>& four, float scale, unsigned& largest) {
  float values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = to_float(four.element[i]);
    largest = Larger()(largest, magnitude(values[i]));
  }
  const float2 first{values[0] * scale, values[1] * scale};
  const float2 second{values[2] * scale, values[3] * scale};
  const auto low = static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(first, __NV_SATFINITE, kType));
  const auto high = static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(second, __NV_SATFINITE, kType));
  return low | high << 16;
}

/// kWhole: the tile lies inside the matrix, and rows of all three begin at boundaries. Returns the thread's
/// largest.
template <bool kWhole, __nv_fp8_interpretation_t kType, class T>
__device__ inline unsigned quantize_tile(const Source<T>& m, std::int64_t first_row, std::int64_t first_col,
                                         unsigned (&tile)[kSide][kWords]) {
  const std::int64_t first = first_row + 4 * (thread_x() / 32);
  const std::int64_t col = first_col + 4 * (thread_x() % 32);
  Four<T> fours[kTurns][4];
#pragma unroll
  for (unsigned n = 0; n < kTurns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::int64_t row = first + 4 * n * kTileWarps + i;
      if constexpr (kWhole) {
        fours[n][i] = *reinterpret_cast<const Four<T>*>(m.x.row(row) + col);
      } else {
        fours[n][i] = load_four(m.x.row(row < m.rows ? row : 0), col, row < m.rows ? m.cols : 0, m.fours);
      }
    }
  }
  const float scale = *m.scale;
  unsigned largest = 0;
  unsigned words[kTurns][4];
#pragma unroll
  for (unsigned n = 0; n < kTurns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::int64_t row = first + 4 * n * kTileWarps + i;
      words[n][i] = word_of<kType>(fours[n][i], scale, largest);
      if (m.y.data == nullptr) continue;
      if constexpr (kWhole) {
        *reinterpret_cast<unsigned*>(m.y.row(row) + col) = words[n][i];
      } else {
        if (row < m.rows) store_word(m.y.row(row), col, m.cols, m.y_words, words[n][i]);
      }
    }
  }
  store_turned<kWhole>(words, tile, first_row, first_col, m.rows, m.cols, m.transposed, m.transposed_words);
  return largest;
}

/// block_x counts tiles down x, block_y across.
template <class T, __nv_fp8_interpretation_t kType>
__global__ void __launch_bounds__(kTileThreads) quantize_transpose_kernel(Source<T> m) {
  __shared__ unsigned tile[kSide][kWords];
  const std::int64_t first_row = static_cast<std::int64_t>(block_x()) * kSide;
  const std::int64_t first_col = static_cast<std::int64_t>(block_y()) * kSide;
  const bool inside = first_row + kSide <= m.rows && first_col + kSide <= m.cols;
  const bool whole = inside && m.fours && m.y_words && m.transposed_words;
  const unsigned largest = whole ? quantize_tile<true, kType>(m, first_row, first_col, tile)
                                 : quantize_tile<false, kType>(m, first_row, first_col, tile);
  if (m.amax != nullptr) note(largest, m.amax);
}

}  // namespace

void fp8_quantize_transpose(const Queue& queue, Matrix x, Matrix scales, Matrix amax, Matrix y,
                            Matrix transposed) {
  if (x.empty()) return;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t four = 4 * size_of(x.dtype);
    const bool fours = reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(four) == 0 &&
                       (x.rows == 1 || x.stride % 4 == 0);
    const Source<T> source{View<const T>(x),
                           scales.as<const float>(),
                           amax.as<float>(),
                           View<unsigned char>(y),
                           View<unsigned char>(transposed),
                           x.rows,
                           x.cols,
                           fours,
                           y.data == nullptr || rows_of_words(y),
                           rows_of_words(transposed)};
    const auto start = [&](auto kernel) {
      launch(queue, {.x = tiles(x.rows), .y = tiles(x.cols), .threads = kTileThreads}, kernel, source);
    };
    if (transposed.dtype == DType::fp8_e4m3) {
      start(quantize_transpose_kernel<T, __NV_E4M3>);
    } else {
      start(quantize_transpose_kernel<T, __NV_E5M2>);
    }
  });
}

}  // namespace plumbline::cuda
