// Sums and maxima over a block, in an order that depends only on its number of threads.
#pragma once

#include "kernels/cuda/device/intrinsics.cuh"

namespace plumbline::cuda {

struct Sum {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

/// Two sums taken at once.
struct Two {
  float a, b;  // shared memory takes no initial values
};
__device__ inline Two shuffle_xor(Two value, int mask) {
  return {shuffle_xor(value.a, mask), shuffle_xor(value.b, mask)};
}
__device__ inline Two operator+(Two x, Two y) {
  return {x.a + y.a, x.b + y.b};
}

/// The combination of every thread's value, the same bits in every thread. All threads of the block call it.
template <class V, class Combine>
__device__ V block_reduce(V value, Combine combine) {
  __shared__ V parts[32];
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  const unsigned warps = block_threads() / 32;
  if (warps == 1) return value;
  sync_block();  // the last reduction's parts have been read
  if (thread_x() % 32 == 0) parts[thread_x() / 32] = value;
  sync_block();
  V result = parts[0];
  for (unsigned warp = 1; warp < warps; ++warp) result = combine(result, parts[warp]);
  return result;
}

}  // namespace plumbline::cuda
