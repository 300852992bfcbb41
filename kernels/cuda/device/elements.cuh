// Elements of the storage types as fp32, eight at a time: 16-byte accesses where a row is aligned, single
// ones elsewhere.
#pragma once

#include "core/tensor/matrix.hpp"
#include "kernels/cuda/device/intrinsics.cuh"

namespace plumbline::cuda {

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

__host__ __device__ inline float to_float(float x) {
  return x;
}
__host__ __device__ inline float to_float(Bf16 x) {
  return __bfloat162float(x);
}
__host__ __device__ inline float to_float(Fp16 x) {
  return __half2float(x);
}
/// Rounds to nearest, ties to even.
template <class T>
__host__ __device__ inline T from_float(float x);
template <>
__host__ __device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__host__ __device__ inline Bf16 from_float<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__host__ __device__ inline Fp16 from_float<Fp16>(float x) {
  return __float2half_rn(x);
}

constexpr int kChunk = 8;  // elements a thread handles at once

struct alignas(16) Words {
  unsigned word[4];
};
template <class T>
union Packed {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  Words words;
  T elements[kCount];
  __host__ __device__ Packed() : words{} {}
};

/// Eight consecutive elements at a 16-byte boundary.
template <class T>
__host__ __device__ inline void load_aligned(const T* from, float (&values)[kChunk]) {
  constexpr int kCount = Packed<T>::kCount;
#pragma unroll
  for (int part = 0; part < kChunk / kCount; ++part) {
    Packed<T> packed;
    packed.words = *reinterpret_cast<const Words*>(from + part * kCount);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[part * kCount + i] = to_float(packed.elements[i]);
  }
}
template <class T>
__host__ __device__ inline void store_aligned(T* to, const float (&values)[kChunk]) {
  constexpr int kCount = Packed<T>::kCount;
#pragma unroll
  for (int part = 0; part < kChunk / kCount; ++part) {
    Packed<T> packed;
#pragma unroll
    for (int i = 0; i < kCount; ++i) packed.elements[i] = from_float<T>(values[part * kCount + i]);
    *reinterpret_cast<Words*>(to + part * kCount) = packed.words;
  }
}

/// Number of a chunk's eight elements that exist, and whether all rows begin at 16-byte boundaries.
struct Part {
  int count = kChunk;
  bool aligned = true;
};
/// The part at column `col` of rows with `cols` columns.
__host__ __device__ inline Part part_at(std::int64_t col, std::int64_t cols, bool aligned) {
  const std::int64_t left = cols - col;
  return {left < kChunk ? static_cast<int>(left) : kChunk, aligned};
}

/// Elements that do not exist read as zero.
template <class T>
__host__ __device__ inline void load(const T* from, Part part, float (&values)[kChunk]) {
  if (part.aligned && part.count == kChunk) return load_aligned(from, values);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) values[i] = i < part.count ? to_float(from[i]) : 0.0F;
}
template <class T>
__host__ __device__ inline void store(T* to, Part part, const float (&values)[kChunk]) {
  if (part.aligned && part.count == kChunk) return store_aligned(to, values);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i < part.count) to[i] = from_float<T>(values[i]);
  }
}

/// A matrix as a kernel sees it.
template <class T>
struct View {
  T* data = nullptr;
  std::int64_t stride = 0;
  View() = default;
  explicit View(const Matrix& x) : data(static_cast<T*>(x.data)), stride(x.stride) {}
  __host__ __device__ T* row(std::int64_t index) const { return data + index * stride; }
};

/// True if every row of `x` begins at a 16-byte boundary; an absent matrix does not matter.
inline bool rows_aligned(const Matrix& x) {
  return x.data == nullptr || (reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
                               (x.rows == 1 || x.stride * size_of(x.dtype) % 16 == 0));
}
template <class... Matrices>
bool all_aligned(const Matrices&... matrices) {
  return (rows_aligned(matrices) && ...);
}

/// True if rows of `x` stay aligned when split into pieces of `cols` columns.
inline bool pieces_aligned(const Matrix& x, std::int64_t cols) {
  return rows_aligned(x) && cols * size_of(x.dtype) % 16 == 0;
}

/// f(float{}), f(Bf16{}) or f(Fp16{}). The operators have refused other types before.
template <class F>
void with_element(DType type, F&& f) {
  if (type == DType::fp32) return f(float{});
  if (type == DType::bf16) return f(Bf16{});
  return f(Fp16{});
}

}  // namespace plumbline::cuda
