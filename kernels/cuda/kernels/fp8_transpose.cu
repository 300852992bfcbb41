// The transpose of a matrix of bytes. Floor: reads a byte per element and writes one.
//
// A block takes a tile of 128×128 through shared memory. Both ways a warp moves 128 consecutive bytes of a
// row, a word of four per lane; in registers every thread turns 4×4 bytes, so that shared memory, too, is
// read and written by words. The words of a line of the tile are rotated by a quarter of the line's number:
// then the 32 lanes meet in 32 different banks when they write as well as when they read.
#include <algorithm>

#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kSide = 128;  // bytes
constexpr unsigned kWords = kSide / 4;

/// Whether every row of a matrix of bytes begins at a 4-byte boundary.
bool rows_of_words(const Matrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0 && (x.rows == 1 || x.stride % 4 == 0);
}

/// The bytes at [col, col + 4) of a row of `cols`, zeros past its end.
__device__ inline unsigned load_word(const unsigned char* row, std::int64_t col, std::int64_t cols,
                                     bool words) {
  if (words && col + 4 <= cols) return *reinterpret_cast<const unsigned*>(row + col);
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (col + i < cols) word |= static_cast<unsigned>(row[col + i]) << (8 * i);
  }
  return word;
}
__device__ inline void store_word(unsigned char* row, std::int64_t col, std::int64_t cols, bool words,
                                  unsigned word) {
  if (words && col + 4 <= cols) {
    *reinterpret_cast<unsigned*>(row + col) = word;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (col + i < cols) row[col + i] = static_cast<unsigned char>(word >> (8 * i));
  }
}

/// Byte j of word i becomes byte i of word j.
__device__ inline void turn(unsigned (&w)[4]) {
  const unsigned low01 = choose_bytes(w[0], w[1], 0x5140);  // bytes 0 of both, then 1
  const unsigned low23 = choose_bytes(w[2], w[3], 0x5140);
  const unsigned high01 = choose_bytes(w[0], w[1], 0x7362);  // bytes 2 of both, then 3
  const unsigned high23 = choose_bytes(w[2], w[3], 0x7362);
  w[0] = choose_bytes(low01, low23, 0x5410);
  w[1] = choose_bytes(low01, low23, 0x7632);
  w[2] = choose_bytes(high01, high23, 0x5410);
  w[3] = choose_bytes(high01, high23, 0x7632);
}

struct Transpose {
  View<const unsigned char> x;  // (rows, cols)
  View<unsigned char> y;        // (cols, rows)
  std::int64_t rows, cols;
  bool x_words, y_words;  // whether rows begin at 4-byte boundaries
};

constexpr unsigned kTurns = kWords / kWarps;  // of 4×4 bytes per thread

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
      const std::int64_t row = first_row + 4 * (warp + n * kWarps) + i;
      const std::int64_t col = first_col + 4 * lane;
      if constexpr (kWhole) {
        words[n][i] = *reinterpret_cast<const unsigned*>(m.x.row(row) + col);
      } else {
        words[n][i] = row < m.rows ? load_word(m.x.row(row), col, m.cols, m.x_words) : 0;
      }
    }
  }
#pragma unroll
  for (unsigned n = 0; n < kTurns; ++n) {
    turn(words[n]);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) tile[4 * lane + i][(warp + n * kWarps + lane) % kWords] = words[n][i];
  }
  sync_block();
#pragma unroll
  for (unsigned line = warp; line < kSide; line += kWarps) {
    const unsigned word = tile[line][(lane + line / 4) % kWords];
    const std::int64_t row = first_col + line;
    const std::int64_t col = first_row + 4 * lane;
    if constexpr (kWhole) {
      *reinterpret_cast<unsigned*>(m.y.row(row) + col) = word;
    } else {
      if (row < m.cols) store_word(m.y.row(row), col, m.rows, m.y_words, word);
    }
  }
}

/// block_x counts tiles down x, block_y across.
__global__ void __launch_bounds__(kThreads) transpose_kernel(Transpose m) {
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
  const auto tiles = [](std::int64_t length) { return static_cast<unsigned>((length + kSide - 1) / kSide); };
  launch(queue, {.x = tiles(x.rows), .y = tiles(x.cols), .threads = kThreads}, transpose_kernel,
         Transpose{View<const unsigned char>(x), View<unsigned char>(y), x.rows, x.cols, rows_of_words(x),
                   rows_of_words(y)});
}

}  // namespace plumbline::cuda
