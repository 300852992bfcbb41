// Quantizing to FP8, and its scales. Floors: fp8_quantize reads x and writes a byte per element,
// fp8_amax reads x; fp8_scales is a handful of numbers.
#include <cuda_fp8.h>

#include <cfloat>
#include <cmath>

#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/fp8_amax.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;
// For a kernel over chunks, all blocks resident at once: more atomics on the largest value would queue up.
constexpr unsigned kBlocksPerMultiprocessor = 6;
constexpr unsigned kInfinity = 0x7F800000U;

struct alignas(8) Codes {
  __nv_fp8x2_storage_t pair[kChunk / 2];
};

/// x·scale to the nearest code, ties to even; larger values, infinities too, become the largest finite.
template <__nv_fp8_interpretation_t kType>
__device__ inline Codes quantized(const float (&values)[kChunk], float scale) {
  Codes codes;
#pragma unroll
  for (int i = 0; i < kChunk / 2; ++i) {
    const float2 scaled{values[2 * i] * scale, values[2 * i + 1] * scale};
    codes.pair[i] = __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, kType);
  }
  return codes;
}

/// Chunks of a matrix. kWhole: all have eight elements, at 16-byte boundaries.
template <class T, bool kWhole>
struct Chunks {
  View<const T> x;
  std::int64_t cols;
  unsigned count;
  FastDivide per_row;
  bool aligned;
};
struct Place {
  unsigned row;
  std::int64_t col;
  Part part;
};
template <class T, bool kWhole>
__device__ inline Place load_chunk(const Chunks<T, kWhole>& chunks, unsigned i, float (&values)[kChunk]) {
  const unsigned row = chunks.per_row.quotient(i);
  const std::int64_t col = static_cast<std::int64_t>(i - row * chunks.per_row.divisor()) * kChunk;
  const Part part = kWhole ? Part() : part_at(col, chunks.cols, chunks.aligned);
  load(chunks.x.row(row) + col, part, values);
  return {row, col, part};
}

/// use(place, values) for every chunk of the matrix, spread over the grid. A thread loads two chunks before
/// it uses the first, to keep enough loads in flight for HBM's latency.
template <class T, bool kWhole, class Use>
__device__ inline void for_chunks(const Chunks<T, kWhole>& chunks, const Use& use) {
  const unsigned step = grid_x() * kThreads;
  unsigned i = block_x() * kThreads + thread_x();
  float first[kChunk];
  for (; i + step < chunks.count; i += 2 * step) {
    float second[kChunk];
    const Place place = load_chunk(chunks, i, first);
    const Place next = load_chunk(chunks, i + step, second);
    use(place, first);
    use(next, second);
  }
  if (i < chunks.count) use(load_chunk(chunks, i, first), first);
}

__device__ inline unsigned largest_of(unsigned largest, const float (&values)[kChunk]) {
#pragma unroll
  for (int i = 0; i < kChunk; ++i) largest = Larger()(largest, magnitude(values[i]));
  return largest;
}

template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads, kWhole ? kBlocksPerMultiprocessor : 1)
    amax_kernel(Chunks<T, kWhole> chunks, float* amax) {
  unsigned largest = 0;
  for_chunks(chunks,
             [&](const Place&, const float(&values)[kChunk]) { largest = largest_of(largest, values); });
  note(largest, amax);
}

template <class T, bool kWhole, __nv_fp8_interpretation_t kType>
__global__ void __launch_bounds__(kThreads, kWhole ? kBlocksPerMultiprocessor : 1)
    quantize_kernel(Chunks<T, kWhole> chunks, const float* scale, View<unsigned char> y, float* amax) {
  const float s = *scale;
  unsigned largest = 0;
  for_chunks(chunks, [&](const Place& place, const float(&values)[kChunk]) {
    const Codes codes = quantized<kType>(values, s);
    unsigned char* to = y.row(place.row) + place.col;
    if constexpr (kWhole) {
      *reinterpret_cast<Codes*>(to) = codes;
    } else {
#pragma unroll
      for (int k = 0; k < kChunk; ++k) {
        if (k < place.part.count) to[k] = static_cast<unsigned char>(codes.pair[k / 2] >> (8 * (k % 2)));
      }
    }
    largest = largest_of(largest, values);
  });
  if (amax != nullptr) note(largest, amax);
}

__global__ void __launch_bounds__(kThreads)
    scales_kernel(View<const float> amaxes, std::int64_t rows, std::int64_t cols, float numerator,
                  View<float> scales) {
  const std::int64_t col = static_cast<std::int64_t>(block_x()) * kThreads + thread_x();
  if (col >= cols) return;
  unsigned largest = 0;
  for (std::int64_t row = 0; row < rows; ++row) largest = Larger()(largest, magnitude(amaxes.row(row)[col]));
  if (largest == 0 || largest >= kInfinity) return;
  float m;
  memcpy(&m, &largest, sizeof m);
  const float quotient = numerator / m;
  const float s = quotient > FLT_MAX ? FLT_MAX : quotient;
  scales.row(0)[col] = s;
  scales.row(1)[col] = 1.0F / s;
}

/// run(Chunks of x, for the type of x) unless x is empty; chunks are whole where those of `other`, of x's
/// shape, are, too.
template <class Run>
void with_chunks(const Matrix& x, const Matrix& other, const Run& run) {
  if (x.empty()) return;
  const bool aligned = all_aligned(x, other);
  const unsigned count = chunks_of(x.rows, x.cols);
  const FastDivide per_row(count / static_cast<unsigned>(x.rows));
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    if (aligned && x.cols % kChunk == 0) {
      run(Chunks<T, true>{View<const T>(x), x.cols, count, per_row, true});
    } else {
      run(Chunks<T, false>{View<const T>(x), x.cols, count, per_row, aligned});
    }
  });
}

unsigned blocks(const Queue& queue, unsigned chunks) {
  return std::min((chunks + kThreads - 1) / kThreads,
                  static_cast<unsigned>(queue.multiprocessors) * kBlocksPerMultiprocessor);
}

}  // namespace

void fp8_amax(const Queue& queue, Matrix x, Matrix amax) {
  x = flattened(x);
  with_chunks(x, {}, [&]<class T, bool kWhole>(const Chunks<T, kWhole>& chunks) {
    launch(queue, {.x = blocks(queue, chunks.count), .threads = kThreads}, amax_kernel<T, kWhole>, chunks,
           amax.as<float>());
  });
}

void fp8_quantize(const Queue& queue, Matrix x, Matrix scales, Matrix amax, Matrix y) {
  if (x.contiguous()) {
    x = flattened(x);
    y = flattened(y);
  }
  const auto start = [&]<class T, bool kWhole>(const Chunks<T, kWhole>& chunks, auto kernel) {
    launch(queue, {.x = blocks(queue, chunks.count), .threads = kThreads}, kernel, chunks,
           scales.as<const float>(), View<unsigned char>(y), amax.as<float>());
  };
  with_chunks(x, y, [&]<class T, bool kWhole>(const Chunks<T, kWhole>& chunks) {
    if (y.dtype == DType::fp8_e4m3) {
      start(chunks, quantize_kernel<T, kWhole, __NV_E4M3>);
    } else {
      start(chunks, quantize_kernel<T, kWhole, __NV_E5M2>);
    }
  });
}

void fp8_scales(const Queue& queue, Matrix amaxes, double largest, int margin, Matrix scales) {
  if (amaxes.empty()) return;
  const auto blocks_wanted = static_cast<unsigned>((amaxes.cols + kThreads - 1) / kThreads);
  launch(queue, {.x = blocks_wanted, .threads = kThreads}, scales_kernel, View<const float>(amaxes),
         amaxes.rows, amaxes.cols, static_cast<float>(std::ldexp(largest, -margin)), View<float>(scales));
}

}  // namespace plumbline::cuda
