// Tiles in shared memory and operands in registers of the tensor core attention kernels. A warp has 16 rows
// of scores; the result registers of one product are the left operand of the next.
#pragma once

#include "kernels/cuda/attention/attention_dropout.cuh"

namespace plumbline::cuda {

constexpr unsigned kTensorThreads = 128;

/// 16-bit tiles in shared memory: rows of kHead elements and 16 bytes of padding, which spreads the rows that
/// a fragment touches over all banks.
template <int kHead>
constexpr int kStride = kHead + 8;

template <class T>
__device__ unsigned pack(float low, float high);
template <>
__device__ inline unsigned pack<Bf16>(float low, float high) {
  union {
    __nv_bfloat162 pair;
    unsigned bits;
  } both{__floats2bfloat162_rn(low, high)};
  return both.bits;
}
template <>
__device__ inline unsigned pack<Fp16>(float low, float high) {
  union {
    __half2 pair;
    unsigned bits;
  } both{__floats2half2_rn(low, high)};
  return both.bits;
}

__device__ inline int lane_group() {
  return static_cast<int>(thread_x() % 32 / 4);
}
__device__ inline int lane_pair() {
  return static_cast<int>(thread_x() % 4 * 2);
}

/// Rows [0, kCount) of a tile: rows first_row… of `x` from column `col`, zero before row `from`, from row
/// `limit` and from column head_dim on.
template <class T, int kHead, int kCount>
__device__ void fill_tile(T* tile, View<const T> x, std::int64_t first_row, std::int64_t col, int from,
                          int limit, int head_dim) {
  constexpr int kChunks = kHead / kChunk;
  for (int i = static_cast<int>(thread_x()); i < kCount * kChunks; i += static_cast<int>(kTensorThreads)) {
    const int row = i / kChunks;
    const int e = i % kChunks * kChunk;
    Words words{};
    if (row >= from && row < limit && e < head_dim)
      words = *reinterpret_cast<const Words*>(x.row(first_row + row) + col + e);
    *reinterpret_cast<Words*>(tile + row * kStride<kHead> + e) = words;
  }
}

template <class T>
__device__ unsigned pair_at(const T* piece, int row, int col, int stride) {
  return *reinterpret_cast<const unsigned*>(piece + row * stride + col);
}
/// The left operand of 16 rows and 16 columns of a tile.
template <class T>
__device__ void load_left(unsigned (&a)[4], const T* piece, int stride) {
  a[0] = pair_at(piece, lane_group(), lane_pair(), stride);
  a[1] = pair_at(piece, lane_group() + 8, lane_pair(), stride);
  a[2] = pair_at(piece, lane_group(), lane_pair() + 8, stride);
  a[3] = pair_at(piece, lane_group() + 8, lane_pair() + 8, stride);
}

/// scores (16 rows × kCols) = rows of `left` (16 × kHead) · rows of `right` (kCols × kHead), transposed.
template <class T, int kHead, int kCols>
__device__ void multiply_rows(float (&scores)[kCols / 8][4], const T* left, const T* right) {
#pragma unroll
  for (int j = 0; j < kCols / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[j][i] = 0;
  }
#pragma unroll
  for (int e = 0; e < kHead; e += 16) {
    unsigned a[4];
    load_left(a, left + e, kStride<kHead>);
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
      const T* piece = right + j * 8 * kStride<kHead> + e;
      const unsigned b[2] = {pair_at(piece, lane_group(), lane_pair(), kStride<kHead>),
                             pair_at(piece, lane_group(), lane_pair() + 8, kStride<kHead>)};
      multiply_add<T>(scores[j], a, b);
    }
  }
}

/// totals (16 × kHead) += weights (16 × kCols, rounded to T) · tile (kCols × kHead).
template <class T, int kHead, int kCols>
__device__ void add_product(float (&totals)[kHead / 8][4], const float (&weights)[kCols / 8][4],
                            const T* tile) {
#pragma unroll
  for (int k = 0; k < kCols / 16; ++k) {
    const unsigned a[4] = {pack<T>(weights[2 * k][0], weights[2 * k][1]),
                           pack<T>(weights[2 * k][2], weights[2 * k][3]),
                           pack<T>(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                           pack<T>(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      unsigned b[2];
      load_down_columns(b, tile + k * 16 * kStride<kHead> + j * 8, kStride<kHead>);
      multiply_add<T>(totals[j], a, b);
    }
  }
}

/// Writes rows `group` and `group + 8` of totals, times their factors, to `to`, whose row first_row is the
/// tile's row 0; but rows [from, count) of the tile only.
template <class T, int kHead>
__device__ void write_rows(View<T> to, std::int64_t first_row, int from, int count, int warp_row,
                           std::int64_t col, const float (&totals)[kHead / 8][4], float upper, float lower,
                           int head_dim) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp_row + lane_group() + 8 * half;
    if (row < from || row >= count) continue;
    T* out = to.row(first_row + row) + col;
    const float factor = half == 0 ? upper : lower;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      const int e = j * 8 + lane_pair();
      if (e >= head_dim) continue;
      *reinterpret_cast<unsigned*>(out + e) =
          pack<T>(totals[j][2 * half] * factor, totals[j][2 * half + 1] * factor);
    }
  }
}

/// Bit 8·j + i: key first_key + 8·j + lane_pair() + i of the query at `position`, for 32 keys.
template <class Drop>
__device__ Kept<Drop> kept_keys(const Drop& drop, const Place& at, int position, int first_key) {
  const auto where = [&](int group) { return FourScores{at.token(position), first_key + 4 * group}; };
  return draw_together<4, 1, 8>(drop, at.head, where).from(lane_pair());
}

/// Bit 8·j + 4·i: query first_query + 8·j + lane_pair() + i and the key at `position`, for 32 queries.
/// Lanes whose groups are four neighbours draw together.
template <class Drop>
__device__ Kept<Drop> kept_queries(const Drop& drop, const Place& at, int head, int position,
                                   int first_query) {
  const int neighbour = lane_group() % 4;
  const auto where = [&](int group) {
    const int query = first_query + group / 2 * 8 + lane_pair() + group % 2;
    return FourScores{at.token(query), position - neighbour};
  };
  return draw_together<4, 4, 8>(drop, at.head + head, where).from(neighbour);
}

/// Zeroes dropped probabilities in 32 columns of a warp's scores, from block first_block of eight on. `kept`
/// belongs to the rows lane_group() and lane_group() + 8; bits of neighbouring columns lie kApart apart.
template <int kApart, int kBlocks, class Drop>
__device__ void zero_dropped(float (&scores)[kBlocks][4], int first_block, const Kept<Drop> (&kept)[2]) {
  if constexpr (Drop::kDrops) {  // a loop around nothing would change the code without dropout
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!kept[i / 2][8 * j + kApart * (i % 2)]) scores[first_block + j][i] = 0;
      }
    }
  }
}

/// Zeroes dropped probabilities where rows are queries, the upper one of this thread at position `row`, and
/// columns keys.
template <int kCols, class Drop>
__device__ void zero_dropped_keys(float (&scores)[kCols / 8][4], const Drop& drop, const Place& at, int row,
                                  int first_key) {
#pragma unroll
  for (int col = 0; col < kCols; col += 32) {
    const Kept<Drop> kept[2] = {kept_keys(drop, at, row, first_key + col),
                                kept_keys(drop, at, row + 8, first_key + col)};
    zero_dropped<1>(scores, col / 8, kept);
  }
}

/// The combination over the four lanes that share a row.
template <class Combine>
__device__ float row_reduce(float value, Combine combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

}  // namespace plumbline::cuda
