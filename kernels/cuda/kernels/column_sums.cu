// Sums over rows: each block sums some rows into a row of partial sums, then the partial sums are added up in
// order. Floor of bias_backward: dy once; the partial sums are at most 1/32 of it.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kLanes = 32;  // threads side by side, eight columns each
constexpr unsigned kRowsAtOnce = 8;
constexpr std::int64_t kTileCols = kLanes * kChunk;
constexpr unsigned kColumnsOfPartials = 8;  // a block's: 32 bytes, the least that memory gives
constexpr unsigned kLinesOfPartials = 32;

template <class T>
__global__ void __launch_bounds__(256)
    column_sums_kernel(View<const T> x, std::int64_t rows, std::int64_t cols, bool aligned, float* partials) {
  __shared__ float sums[kRowsAtOnce][kTileCols];
  const unsigned lane = thread_x() % kLanes;
  const unsigned line = thread_x() / kLanes;
  const std::int64_t col = block_x() * kTileCols + lane * kChunk;
  float total[kChunk] = {};
  if (col < cols) {
    const Part part = part_at(col, cols, aligned);
    for (std::int64_t row = block_y() * kRowsAtOnce + line; row < rows; row += grid_y() * kRowsAtOnce) {
      float values[kChunk];
      load(x.row(row) + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) total[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sums[line][lane * kChunk + i] = total[i];
  sync_block();
  const std::int64_t own = block_x() * kTileCols + thread_x();
  if (own >= cols) return;
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kRowsAtOnce; ++i) sum += sums[i][thread_x()];
  partials[block_y() * cols + own] = sum;
}

template <class G>
__global__ void __launch_bounds__(256) add_partials_kernel(const float* partials, std::int64_t count,
                                                           std::int64_t stride, std::int64_t cols, G* to) {
  // 32 threads share a column, each with every 32nd partial sum: a layer's columns alone would fill a third
  // of a card.
  __shared__ float sums[kLinesOfPartials][kColumnsOfPartials];
  const unsigned lane = thread_x() % kColumnsOfPartials;
  const unsigned line = thread_x() / kColumnsOfPartials;
  const std::int64_t col = block_x() * kColumnsOfPartials + lane;
  float sum = 0;
  if (col < cols) {
    for (std::int64_t i = line; i < count; i += kLinesOfPartials) sum += partials[i * stride + col];
  }
  sums[line][lane] = sum;
  sync_block();
  if (line > 0 || col >= cols) return;
  float total = 0;
#pragma unroll
  for (unsigned i = 0; i < kLinesOfPartials; ++i) total += sums[i][lane];
  to[col] = from_float<G>(to_float(to[col]) + total);
}

unsigned tiles(std::int64_t cols, std::int64_t width) {
  return static_cast<unsigned>((cols + width - 1) / width);
}

}  // namespace

std::int64_t bias_partials(const Queue& queue, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kRowsPerPartial = 32;
  const std::int64_t wanted =
      (8LL * queue.multiprocessors + tiles(cols, kTileCols) - 1) / tiles(cols, kTileCols);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, rows / kRowsPerPartial));
}

void bias_backward(const Queue& queue, Matrix dy, Matrix dbias, float* partials, std::int64_t count) {
  if (dy.cols == 0) return;
  with_element(dy.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = tiles(dy.cols, kTileCols), .y = static_cast<unsigned>(count), .threads = 256},
           column_sums_kernel<T>, View<const T>(dy), dy.rows, dy.cols, all_aligned(dy), partials);
  });
  add_partials(queue, partials, count, dy.cols, dbias);
}

void add_partials(const Queue& queue, const float* partials, std::int64_t count, std::int64_t stride,
                  Matrix to) {
  if (to.cols == 0) return;
  with_element(to.dtype, [&](auto type) {
    using G = decltype(type);
    launch(queue, {.x = tiles(to.cols, kColumnsOfPartials), .threads = 256}, add_partials_kernel<G>, partials,
           count, stride, to.cols, to.as<G>());
  });
}

}  // namespace plumbline::cuda
