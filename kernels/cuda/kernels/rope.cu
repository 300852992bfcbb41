// Rotary embedding. Floor, in elements per rotated element of x: 2.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

/// A row here is one head of one token, a column one pair (x1, x2).
template <class T>
struct RopeBody {
  View<T> x;
  FastDivide heads, seq;
  std::int64_t head_dim, half;
  const float *cos, *sin;
  std::int64_t cos_stride, sin_stride;
  float direction;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const unsigned token = heads.quotient(row);
    const std::int64_t head = row - token * heads.divisor();
    const std::int64_t position = seq.remainder(token);
    T* first = x.row(token) + head * head_dim + col;
    float x1[kChunk];
    float x2[kChunk];
    float c[kChunk];
    float s[kChunk];
    load(first, part, x1);
    load(first + half, part, x2);
    load(cos + position * cos_stride + col, part, c);
    load(sin + position * sin_stride + col, part, s);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float sine = s[i] * direction;
      const float rotated = x1[i] * c[i] - x2[i] * sine;
      x2[i] = x2[i] * c[i] + x1[i] * sine;
      x1[i] = rotated;
    }
    store(first, part, x1);
    store(first + half, part, x2);
  }
};

/// Pairs of neighbours: a column is an element, a chunk four pairs.
template <class T>
struct NeighboursBody {
  View<T> x;
  FastDivide heads, seq;
  std::int64_t head_dim;
  const float *cos, *sin;
  std::int64_t cos_stride, sin_stride;
  float direction;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const unsigned token = heads.quotient(row);
    const std::int64_t head = row - token * heads.divisor();
    const std::int64_t position = seq.remainder(token);
    T* first = x.row(token) + head * head_dim + col;
    float values[kChunk];
    load(first, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; i += 2) {
      if (i >= part.count) break;
      const float c = cos[position * cos_stride + (col + i) / 2];
      const float sine = sin[position * sin_stride + (col + i) / 2] * direction;
      const float rotated = values[i] * c - values[i + 1] * sine;
      values[i + 1] = values[i + 1] * c + values[i] * sine;
      values[i] = rotated;
    }
    store(first, part, values);
  }
};

}  // namespace

void rope(const Queue& queue, Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  const std::int64_t heads = x.cols / head_dim;
  if (x.empty()) return;
  const std::int64_t half = cos.cols;
  const bool aligned = pieces_aligned(x, half) && pieces_aligned(x, head_dim) && all_aligned(cos, sin);
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(
        queue, x.rows * heads, half, aligned,
        RopeBody<T>{View<T>(x), FastDivide(static_cast<unsigned>(heads)),
                    FastDivide(static_cast<unsigned>(cos.rows)), head_dim, half, cos.as<const float>(),
                    sin.as<const float>(), cos.stride, sin.stride, inverse ? -1.0F : 1.0F});
  });
}

void rope_neighbours(const Queue& queue, Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim,
                     bool inverse) {
  const std::int64_t heads = x.cols / head_dim;
  if (x.empty()) return;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(
        queue, x.rows * heads, 2 * cos.cols, pieces_aligned(x, head_dim),
        NeighboursBody<T>{View<T>(x), FastDivide(static_cast<unsigned>(heads)),
                          FastDivide(static_cast<unsigned>(cos.rows)), head_dim, cos.as<const float>(),
                          sin.as<const float>(), cos.stride, sin.stride, inverse ? -1.0F : 1.0F});
  });
}

}  // namespace plumbline::cuda
