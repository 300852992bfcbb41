// Tiles in shared memory of the attention kernels without tensor cores: fp32 for every storage type. Eight
// threads share a row.
#pragma once

#include "kernels/cuda/attention/attention_dropout.cuh"

namespace plumbline::cuda {

constexpr int kTile = 32;    // rows and columns of a block of scores
constexpr int kSharers = 8;  // threads of a row
constexpr int kPerThread = kTile / kSharers;
constexpr unsigned kTileThreads = kTile * kSharers;

/// Rows of one head in shared memory as fp32: kTile rows, one float of padding each.
struct Tile {
  float* data;
  int stride;
  __device__ float& at(int row, int col) const { return data[row * stride + col]; }
};

/// Row i of the tile is row first + i of `x` at column `col`, zero before row `from` and from row `limit` on.
/// All threads call it.
template <class T>
__device__ void fill_tile(const Tile& tile, View<const T> x, std::int64_t first_row, std::int64_t col,
                          int from, int limit, int head_dim) {
  for (int i = static_cast<int>(thread_x()); i < kTile * head_dim; i += static_cast<int>(kTileThreads)) {
    const int row = i / head_dim;
    const int e = i - row * head_dim;
    tile.at(row, e) = row >= from && row < limit ? to_float(x.row(first_row + row)[col + e]) : 0.0F;
  }
}

__device__ inline float dot(const Tile& a, int row, const Tile& b, int other, int head_dim) {
  float sum = 0;
  for (int e = 0; e < head_dim; ++e) sum += a.at(row, e) * b.at(other, e);
  return sum;
}

/// The combination over the eight threads of a row.
template <class Combine>
__device__ float sharers_reduce(float value, Combine combine) {
#pragma unroll
  for (int mask = kSharers / 2; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

/// This thread's share of row × tile: totals[j] += Σ_k row[k]·tile(k, sharer + 8j).
template <int kShare>
__device__ void add_product(float (&totals)[kShare], const Tile& weights, int row, const Tile& tile,
                            int sharer, int head_dim) {
  for (int k = 0; k < kTile; ++k) {
    const float weight = weights.at(row, k);
#pragma unroll
    for (int j = 0; j < kShare; ++j) {
      const int e = sharer + kSharers * j;
      if (e < head_dim) totals[j] += weight * tile.at(k, e);
    }
  }
}

/// Writes this thread's share of a row of the result.
template <int kShare, class T>
__device__ void write_row(View<T> to, std::int64_t row, std::int64_t col, const float (&totals)[kShare],
                          float factor, int sharer, int head_dim) {
#pragma unroll
  for (int j = 0; j < kShare; ++j) {
    const int e = sharer + kSharers * j;
    if (e < head_dim) to.row(row)[col + e] = from_float<T>(totals[j] * factor);
  }
}

/// The tiles of a kernel, one after the other in dynamic shared memory.
struct TileMaker {
  float* next = reinterpret_cast<float*>(dynamic_shared());
  __device__ Tile operator()(int cols) {
    const Tile tile{next, cols + 1};
    next += kTile * (cols + 1);
    return tile;
  }
};

/// Bit kSharers·j: key first_key + sharer + kSharers·j of the query in this row.
template <class Drop>
__device__ Kept<Drop> kept_keys(const Drop& drop, const Place& at, int row, int sharer, int first_key) {
  const auto where = [&](int group) { return FourScores{at.token(at.first + row), first_key + 4 * group}; };
  return draw_together<kSharers, 1, kTile / 4>(drop, at.head, where).from(sharer);
}

/// Bit 4·j: query first_query + sharer + kSharers·j and the key of this row. The rows of a warp are four
/// neighbours.
template <class Drop>
__device__ Kept<Drop> kept_queries(const Drop& drop, const Place& at, int head, int row, int sharer,
                                   int first_query) {
  const auto where = [&](int group) {
    return FourScores{at.token(first_query + sharer + kSharers * group), at.first + row / 4 * 4};
  };
  return draw_together<4, kSharers, kPerThread>(drop, at.head + head, where).from(row % 4);
}

}  // namespace plumbline::cuda
