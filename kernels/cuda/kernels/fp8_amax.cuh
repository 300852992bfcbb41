// The largest absolute value of quantized tensors.
#pragma once

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/intrinsics.cuh"

namespace plumbline::cuda {

/// The bits of |x|. They are ordered like the numbers, with NaN above infinity, so their maximum is the same
/// in any order.
__device__ inline unsigned magnitude(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7FFFFFFFU;
}

struct Larger {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a > b ? a : b; }
};

/// *amax, not negative, = the largest of itself and every thread's `largest`. All threads of the block call
/// it.
__device__ inline void note(unsigned largest, float* amax) {
  largest = block_reduce(largest, Larger());
  if (thread_x() == 0) atomic_larger(reinterpret_cast<unsigned*>(amax), largest);
}

}  // namespace plumbline::cuda
