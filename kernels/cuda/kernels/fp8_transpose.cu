// The transpose of a matrix of bytes. Floor: reads a byte per element and writes one.
#include "kernels/cuda/kernels/byte_tiles.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

struct Transpose {
  View<const unsigned char> x;  // (rows, cols)
  View<unsigned char> y;        // (cols, rows)
  std::int64_t rows, cols;
  bool x_words, y_words;  // true if rows begin at 4-byte boundaries
};

/// kWhole: the tile lies inside the matrix, and rows begin at 4-byte boundaries.
template <bool kWhole>
__device__ inline void transpose_tile(const Transpose& m, std::int64_t first_row, std::int64_t first_col,
                                      unsigned (&tile)[kSide][kWords]) {
  const unsigned lane = thread_x() % 32;
  const unsigned warp = thread_x() / 32;
  unsigned words[kTurns][4];
#pragma unroll
  for (unsigned n = 0; n < kTurns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::int64_t row = first_row + 4 * (warp + n * kTileWarps) + i;
      const std::int64_t col = first_col + 4 * lane;
      if constexpr (kWhole) {
        words[n][i] = *reinterpret_cast<const unsigned*>(m.x.row(row) + col);
      } else {
        words[n][i] = row < m.rows ? load_word(m.x.row(row), col, m.cols, m.x_words) : 0;
      }
    }
  }
  store_turned<kWhole>(words, tile, first_row, first_col, m.rows, m.cols, m.y, m.y_words);
}

/// block_x counts tiles down x, block_y across.
__global__ void __launch_bounds__(kTileThreads) transpose_kernel(Transpose m) {
  __shared__ unsigned tile[kSide][kWords];  // a line: a column of x, four of its rows in a word
  const std::int64_t first_row = static_cast<std::int64_t>(block_x()) * kSide;
  const std::int64_t first_col = static_cast<std::int64_t>(block_y()) * kSide;
  if (m.x_words && m.y_words && first_row + kSide <= m.rows && first_col + kSide <= m.cols) {
    transpose_tile<true>(m, first_row, first_col, tile);
  } else {
    transpose_tile<false>(m, first_row, first_col, tile);
  }
}

}  // namespace

void fp8_transpose(const Queue& queue, Matrix x, Matrix y) {
  if (x.empty()) return;
  launch(queue, {.x = tiles(x.rows), .y = tiles(x.cols), .threads = kTileThreads}, transpose_kernel,
         Transpose{View<const unsigned char>(x), View<unsigned char>(y), x.rows, x.cols, rows_of_words(x),
                   rows_of_words(y)});
}

}  // namespace plumbline::cuda
