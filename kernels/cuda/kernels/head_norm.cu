// RMSNorm of heads: a warp takes one head of one token after the other. Floors, in elements per element of x:
// forward 2, backward 3. Weight gradients: each warp sums its heads in registers into a row of partial sums,
// which are added up in order.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kWarps = kThreads / 32;
/// The sum over the lanes of a warp, in all of them.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    head_norm_forward_kernel(View<const T> x, const T* w, View<T> y, View<float> rstd, std::int64_t heads,
                             int d, std::int64_t items, float epsilon) {
  const int lane = static_cast<int>(thread_x() % 32);
  const std::int64_t first = static_cast<std::int64_t>(block_x()) * kWarps + thread_x() / 32;
  for (std::int64_t item = first; item < items; item += static_cast<std::int64_t>(grid_x()) * kWarps) {
    const std::int64_t token = item / heads;
    const std::int64_t head = item - token * heads;
    const T* in = x.row(token) + head * d;
    T* out = y.row(token) + head * d;
    float squares = 0;
    for (int e = lane; e < d; e += 32) squares += to_float(in[e]) * to_float(in[e]);
    const float r = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(d) + epsilon);
    if (lane == 0) rstd.row(token)[head] = r;
    for (int e = lane; e < d; e += 32) out[e] = from_float<T>(to_float(in[e]) * r * to_float(w[e]));
  }
}

template <class T, int kMostPerLane>
__global__ void __launch_bounds__(kThreads)
    head_norm_backward_kernel(View<const T> dy, View<const T> x, const T* w, View<const float> rstd,
                              View<T> dx, std::int64_t heads, int d, std::int64_t items, float* partials) {
  const int lane = static_cast<int>(thread_x() % 32);
  const std::int64_t warp = static_cast<std::int64_t>(block_x()) * kWarps + thread_x() / 32;
  float dw[kMostPerLane] = {};
  for (std::int64_t item = warp; item < items; item += static_cast<std::int64_t>(grid_x()) * kWarps) {
    const std::int64_t token = item / heads;
    const std::int64_t head = item - token * heads;
    const T* gradient = dy.row(token) + head * d;
    const T* in = x.row(token) + head * d;
    T* out = dx.row(token) + head * d;
    const float r = rstd.row(token)[head];
    float products = 0;
#pragma unroll
    for (int i = 0; i < kMostPerLane; ++i) {
      const int e = lane + 32 * i;
      if (e >= d) continue;
      const float product = to_float(gradient[e]) * to_float(in[e]);
      dw[i] += product * r;
      products += product * to_float(w[e]);
    }
    const float pull = r * r * r * warp_sum(products) / static_cast<float>(d);
#pragma unroll
    for (int i = 0; i < kMostPerLane; ++i) {
      const int e = lane + 32 * i;
      if (e >= d) continue;
      out[e] = from_float<T>(to_float(gradient[e]) * to_float(w[e]) * r - to_float(in[e]) * pull);
    }
  }
#pragma unroll
  for (int i = 0; i < kMostPerLane; ++i) {
    const int e = lane + 32 * i;
    if (e < d) partials[warp * d + e] = dw[i];
  }
}

unsigned blocks_of_heads(const Queue& queue, std::int64_t items) {
  constexpr std::int64_t kBlocksPerProcessor = 8;
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + kWarps - 1) / kWarps, 1,
                                                        queue.multiprocessors * kBlocksPerProcessor));
}

template <int kMost>
using PerLane = std::integral_constant<int, kMost>;

/// Calls f with how many elements of a head a lane holds at most. Heads are narrow; latents, normalised as
/// one head, have up to 2048 elements.
template <class F>
void with_elements_per_lane(std::int64_t head_dim, F&& f) {
  if (head_dim <= 256) return f(PerLane<8>());
  if (head_dim <= 512) return f(PerLane<16>());
  f(PerLane<kMostHeadNorm / 32>());
}

}  // namespace

void head_norm_forward(const Queue& queue, Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  if (x.empty()) return;
  const std::int64_t items = x.rows * rstd.cols;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = blocks_of_heads(queue, items), .threads = kThreads}, head_norm_forward_kernel<T>,
           View<const T>(x), w.as<const T>(), View<T>(y), View<float>(rstd), rstd.cols,
           static_cast<int>(w.cols), items, static_cast<float>(epsilon));
  });
}

std::int64_t head_norm_partials(const Queue& queue, std::int64_t items) {
  return static_cast<std::int64_t>(blocks_of_heads(queue, items)) * kWarps;
}

void head_norm_backward(const Queue& queue, Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw,
                        float* partials) {
  if (x.empty()) return;
  const std::int64_t items = x.rows * rstd.cols;
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_elements_per_lane(w.cols, [&](auto per_lane) {
      launch(queue, {.x = blocks_of_heads(queue, items), .threads = kThreads},
             head_norm_backward_kernel<T, decltype(per_lane)::value>, View<const T>(dy), View<const T>(x),
             w.as<const T>(), View<const float>(rstd), View<T>(dx), rstd.cols, static_cast<int>(w.cols),
             items, partials);
    });
  });
  if (!dw.empty()) add_partials(queue, partials, head_norm_partials(queue, items), w.cols, dw);
}

}  // namespace plumbline::cuda
