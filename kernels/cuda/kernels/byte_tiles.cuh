// Transposing matrices of bytes, tile by tile.
//
// A block takes a tile of 128×128 through shared memory. Both ways a warp moves 128 consecutive bytes of a
// row, a word of four per lane. In registers every thread transposes 4×4 bytes, so that shared memory, too,
// is read and written by words. The words of a line of the tile are rotated by a quarter of the line's
// number. Then the 32 lanes use 32 different banks in writing and in reading.
#pragma once

#include "kernels/cuda/device/elements.cuh"

namespace plumbline::cuda {

constexpr unsigned kTileThreads = 256;
constexpr unsigned kTileWarps = kTileThreads / 32;
constexpr unsigned kSide = 128;  // bytes
constexpr unsigned kWords = kSide / 4;

/// True if every row of a matrix of bytes begins at a 4-byte boundary.
inline bool rows_of_words(const Matrix& x) {
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

constexpr unsigned kTurns = kWords / kTileWarps;  // of 4×4 bytes per thread

/// Tiles along a side of `length` elements.
inline unsigned tiles(std::int64_t length) {
  return static_cast<unsigned>((length + kSide - 1) / kSide);
}

/// The second half: word i of words[n] has four bytes of the tile's row 4·(warp + n·kTileWarps) + i, from
/// column 4·lane on. Transposed they go through `tile` to the rows of y (cols, rows) from `first_col` on.
/// kWhole: the tile lies inside the matrix (rows, cols), and rows of y begin at 4-byte boundaries (y_words).
template <bool kWhole>
__device__ inline void store_turned(unsigned (&words)[kTurns][4], unsigned (&tile)[kSide][kWords],
                                    std::int64_t first_row, std::int64_t first_col, std::int64_t rows,
                                    std::int64_t cols, const View<unsigned char>& y, bool y_words) {
  const unsigned lane = thread_x() % 32;
  const unsigned warp = thread_x() / 32;
#pragma unroll
  for (unsigned n = 0; n < kTurns; ++n) {
    turn(words[n]);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      tile[4 * lane + i][(warp + n * kTileWarps + lane) % kWords] = words[n][i];
  }
  sync_block();
#pragma unroll
  for (unsigned line = warp; line < kSide; line += kTileWarps) {
    const unsigned word = tile[line][(lane + line / 4) % kWords];
    const std::int64_t row = first_col + line;
    const std::int64_t col = first_row + 4 * lane;
    if constexpr (kWhole) {
      *reinterpret_cast<unsigned*>(y.row(row) + col) = word;
    } else {
      if (row < cols) store_word(y.row(row), col, rows, y_words, word);
    }
  }
}

}  // namespace plumbline::cuda
