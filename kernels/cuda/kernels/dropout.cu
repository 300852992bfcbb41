// Dropout, and addition to the kept elements. Floors: the mask writes a byte per element, and computes a
// Philox call for every four of them, which takes longer; dropout_add moves three elements and a byte
// (without a residual two), dropout_backward two and a byte.
#include "kernels/dropout.hpp"

#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

/// The mask of a chunk.
struct alignas(kChunk) MaskBytes {
  std::uint8_t byte[kChunk];
};

/// True if chunks of every row begin where MaskBytes may lie.
bool chunks_aligned(const Matrix& mask) {
  return reinterpret_cast<std::uintptr_t>(mask.data) % alignof(MaskBytes) == 0 &&
         (mask.rows == 1 || mask.stride % kChunk == 0);
}

__device__ MaskBytes load_mask(const std::uint8_t* from, Part part) {
  if (part.aligned && part.count == kChunk) return *reinterpret_cast<const MaskBytes*>(from);
  MaskBytes mask{};
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i < part.count) mask.byte[i] = from[i];
  }
  return mask;
}

/// Dropped elements become zero, whatever they were.
__device__ void drop(float (&values)[kChunk], const MaskBytes& mask, float scale) {
#pragma unroll
  for (int i = 0; i < kChunk; ++i) values[i] = mask.byte[i] != 0 ? values[i] * scale : 0.0F;
}

struct MaskBody {
  View<std::uint8_t> mask;
  Dropout dropout;
  std::uint32_t threshold;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    MaskBytes kept;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const DropoutWords words = dropout_words(
          dropout, static_cast<std::uint32_t>(col / 4) + static_cast<std::uint32_t>(half), row, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) kept.byte[4 * half + i] = words.word[i] < threshold ? 0 : 1;
    }
    std::uint8_t* to = mask.row(row) + col;
    if (part.aligned && part.count == kChunk) {
      *reinterpret_cast<MaskBytes*>(to) = kept;
      return;
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (i < part.count) to[i] = kept.byte[i];
    }
  }
};

template <class T>
struct DropAddBody {
  View<const T> x;
  const T* bias;
  View<const T> residual;
  View<const std::uint8_t> mask;
  float scale;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    float more[kChunk];
    load(x.row(row) + col, part, values);
    if (bias != nullptr) {
      load(bias + col, part, more);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) values[i] += more[i];
    }
    drop(values, load_mask(mask.row(row) + col, part), scale);
    if (residual.data != nullptr) {
      load(residual.row(row) + col, part, more);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) values[i] += more[i];
    }
    store(y.row(row) + col, part, values);
  }
};

bool without_gaps(const Matrix& x) {
  return x.data == nullptr || x.contiguous();
}

}  // namespace

void dropout_mask(const Queue& queue, const Dropout& dropout, Matrix mask) {
  over_chunks(queue, mask.rows, mask.cols, chunks_aligned(mask),
              MaskBody{View<std::uint8_t>(mask), dropout, dropout_threshold(dropout.probability)});
}

void dropout_add(const Queue& queue, Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                 Matrix y) {
  if (bias.data == nullptr && x.contiguous() && mask.contiguous() && y.contiguous() &&
      without_gaps(residual)) {
    for (Matrix* part : {&x, &residual, &mask, &y}) *part = flattened(*part);
  }
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, all_aligned(x, bias, residual, y) && chunks_aligned(mask),
                DropAddBody<T>{View<const T>(x), bias.as<const T>(), View<const T>(residual),
                               View<const std::uint8_t>(mask), dropout_scale(probability), View<T>(y)});
  });
}

}  // namespace plumbline::cuda
