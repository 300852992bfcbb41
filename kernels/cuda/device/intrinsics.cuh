// Processor features used by kernels: place in the grid, barriers, shuffles, shared memory, and launches.
// Kernels use nothing else that a host compiler lacks. So the tests can run them on a CPU, with another
// header in place of this one's second half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/queue.hpp"

namespace plumbline::cuda {

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned threads = 256;          // per block, a multiple of 32
  std::size_t dynamic_shared = 0;  // bytes per block
};

}  // namespace plumbline::cuda

#ifdef PLUMBLINE_KERNELS_ON_HOST
#include PLUMBLINE_KERNELS_ON_HOST
#else

#include "kernels/cuda/device/error.hpp"

namespace plumbline::cuda {

__device__ __forceinline__ unsigned thread_x() {
  return threadIdx.x;
}
__device__ __forceinline__ unsigned block_threads() {
  return blockDim.x;
}
__device__ __forceinline__ unsigned block_x() {
  return blockIdx.x;
}
__device__ __forceinline__ unsigned block_y() {
  return blockIdx.y;
}
__device__ __forceinline__ unsigned grid_x() {
  return gridDim.x;
}
__device__ __forceinline__ unsigned grid_y() {
  return gridDim.y;
}
__device__ __forceinline__ void sync_block() {
  __syncthreads();
}
/// The value of the lane whose number differs in the bits of `mask`.
template <class V>
__device__ __forceinline__ V shuffle_xor(V value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
/// *to = the larger of itself and `value`, whichever blocks do so at once.
__device__ __forceinline__ void atomic_larger(unsigned* to, unsigned value) {
  atomicMax(to, value);
}
/// Four of the bytes of low (0 to 3) and high (4 to 7), as the four lower hexadecimal digits of `selector`
/// number them from the lowest.
__device__ __forceinline__ unsigned choose_bytes(unsigned low, unsigned high, unsigned selector) {
  return __byte_perm(low, high, selector);
}
/// The block's dynamic shared memory, 16-byte aligned.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char plumbline_dynamic_shared[];
  return plumbline_dynamic_shared;
}

/// c (16×8) += a (16×16) · b (16×8) by a warp's tensor core instruction, in the register layout of PTX
/// (mma.m16n8k16). With group = lane / 4 and pair = 2·(lane % 4), the elements are:
///   a  the pairs (group, pair), (group + 8, pair), (group, pair + 8), (group + 8, pair + 8)
///   b  the pairs down a column (pair, group), (pair + 8, group)
///   c  (group, pair), (group, pair + 1), (group + 8, pair), (group + 8, pair + 1)
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&c)[4], const unsigned (&a)[4],
                                                            const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&c)[4], const unsigned (&a)[4],
                                                     const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// b as multiply_add wants it from a 16×8 piece of a row-major tile in shared memory whose rows start at
/// 16-byte boundaries, `stride` elements apart.
template <class T>
__device__ __forceinline__ void load_down_columns(unsigned (&b)[2], const T* piece, int stride) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(piece + (threadIdx.x % 16) * stride));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(address)
               : "memory");
}

/// Starts `kernel` on the queue. More dynamic shared memory than 48 KiB is asked for first.
template <class... Parameters, class... Arguments>
void launch(const Queue& queue, const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  constexpr std::size_t kUnaskedShared = 48 << 10;
  if (grid.dynamic_shared > kUnaskedShared) {
    PLUMBLINE_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(grid.dynamic_shared)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, 1);
  config.blockDim = dim3(grid.threads, 1, 1);
  config.dynamicSmemBytes = grid.dynamic_shared;
  config.stream = queue.stream;
  PLUMBLINE_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace plumbline::cuda

#endif
