// The loop of every elementwise kernel: the chunks of eight columns of every row, spread over a grid.
#pragma once

#include <algorithm>
#include <string>

#include "core/base/error.hpp"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/device/fast_divide.cuh"

namespace plumbline::cuda {

/// body(row, col, part) for every chunk; each does eight elements.
template <class Body>
__global__ void __launch_bounds__(256) over_chunks_kernel(unsigned chunks, FastDivide chunks_per_row,
                                                          std::int64_t cols, bool aligned, Body body) {
  for (unsigned i = block_x() * block_threads() + thread_x(); i < chunks; i += grid_x() * block_threads()) {
    const unsigned row = chunks_per_row.quotient(i);
    const std::int64_t col = static_cast<std::int64_t>(i - row * chunks_per_row.divisor()) * kChunk;
    body(row, col, part_at(col, cols, aligned));
  }
}

/// Blocks for `work` items of one thread each: enough to fill the processor several times over.
inline unsigned blocks_for(const Queue& queue, std::int64_t work, unsigned threads) {
  constexpr std::int64_t kWaves = 32;
  const std::int64_t wanted = (work + threads - 1) / threads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, queue.multiprocessors * kWaves));
}

/// A matrix without gaps as one row: no division by the row length.
inline Matrix flattened(const Matrix& x) {
  return x.contiguous() ? x.reshaped(1, x.elements()) : x;
}

/// Calls f(first, count) for pieces that one launch can count, from multiples of 2^30 on.
template <class F>
void in_pieces(std::int64_t elements, F&& f) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 30;
  for (std::int64_t first = 0; first < elements; first += kPiece)
    f(first, std::min(kPiece, elements - first));
}

/// Calls f(matrix) for a matrix of one row in such pieces, for any other whole.
template <class F>
void in_row_pieces(const Matrix& x, F&& f) {
  if (x.rows != 1) return f(x);
  in_pieces(x.cols, [&](std::int64_t first, std::int64_t count) { f(x.columns(first, count)); });
}

/// The chunks of all rows, equally many in each. Throws Error if a kernel could not count them.
inline unsigned chunks_of(std::int64_t rows, std::int64_t cols) {
  const std::int64_t per_row = (cols + kChunk - 1) / kChunk;
  if (rows * per_row >= std::int64_t{1} << 30) {
    throw Error("an elementwise operator of " + std::to_string(rows) + "x" + std::to_string(cols) +
                " elements; at most 2^33 are supported");
  }
  return static_cast<unsigned>(rows * per_row);
}

template <class Body>
void over_chunks(const Queue& queue, std::int64_t rows, std::int64_t cols, bool aligned, const Body& body) {
  if (rows == 0 || cols == 0) return;
  const unsigned chunks = chunks_of(rows, cols);
  launch(queue, {.x = blocks_for(queue, chunks, 256), .threads = 256}, over_chunks_kernel<Body>, chunks,
         FastDivide(chunks / static_cast<unsigned>(rows)), cols, aligned, body);
}

}  // namespace plumbline::cuda
