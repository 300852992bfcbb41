// A CPU in place of a GPU for kernels/cuda: the definitions that intrinsics.cuh needs, with every thread of a
// block as a fiber. Blocks run one after the other, every second one with its threads in reverse order, so
// that a missing barrier shows as a wrong number. A shuffle or barrier that not all threads reach, and a
// write past a block's dynamic shared memory, end the process with a message. Speed, and the order of memory
// accesses between blocks, are not those of a GPU. With PLUMBLINE_HOST_THREADS (races.sh) every CUDA thread
// is a thread of the host and two blocks run at once, so that ThreadSanitizer sees accesses without an order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#undef __shared__
#ifdef PLUMBLINE_HOST_THREADS
// Shared by all threads of a block; host_shared_memory.cpp decides where a thread's variables lie.
#define __shared__ static thread_local
#else
// Shared by all fibers of a block, and blocks follow each other.
#define __shared__ static
#endif
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace plumbline::cuda {

namespace host {

/// Runs `kernel` for every thread of the grid.
void run(const Grid& grid, const std::function<void()>& kernel);

struct Position {
  unsigned thread = 0, threads = 0, block_x = 0, block_y = 0, grid_x = 0, grid_y = 0;
};
/// Position of the fiber that runs now.
const Position& position();
void wait_for_block();
/// Shows `bytes` bytes (32 at most) to all lanes of the warp, which all call it.
void show(const void* value, std::size_t bytes);
/// Value last shown by the lane whose number differs in the bits of `mask`, or by lane `lane` of the warp.
const void* shown_across(int mask);
const void* shown_by(unsigned lane);
unsigned char* dynamic_shared();

}  // namespace host

inline unsigned thread_x() {
  return host::position().thread;
}
inline unsigned block_threads() {
  return host::position().threads;
}
inline unsigned block_x() {
  return host::position().block_x;
}
inline unsigned block_y() {
  return host::position().block_y;
}
inline unsigned grid_x() {
  return host::position().grid_x;
}
inline unsigned grid_y() {
  return host::position().grid_y;
}
inline void sync_block() {
  host::wait_for_block();
}
template <class V>
V shuffle_xor(V value, int mask) {
  host::show(&value, sizeof value);
  std::memcpy(&value, host::shown_across(mask), sizeof value);
  return value;
}
inline void atomic_larger(unsigned* to, unsigned value) {
  unsigned seen = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(to, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
inline unsigned choose_bytes(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned chosen = 0;
  for (unsigned i = 0; i < 4; ++i) {
    chosen |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  }
  return chosen;
}
inline unsigned char* dynamic_shared() {
  return host::dynamic_shared();
}
inline float as_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
inline float as_float(__half x) {
  return __half2float(x);
}

template <class T>
void multiply_add(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Operands {
    T a[8];
    T b[4];
  } operands;
  std::memcpy(static_cast<void*>(operands.a), a, sizeof a);
  std::memcpy(static_cast<void*>(operands.b), b, sizeof b);
  host::show(&operands, sizeof operands);
  const unsigned group = thread_x() % 32 / 4;
  const unsigned pair = thread_x() % 4 * 2;
  // Line `line` of a or b lies in four lanes, two positions of the sum in each, and eight more.
  const auto lanes_of = [](unsigned line) {
    std::array<const Operands*, 4> lanes;
    for (unsigned i = 0; i < 4; ++i) lanes[i] = static_cast<const Operands*>(host::shown_by(4 * line + i));
    return lanes;
  };
  const auto rows = lanes_of(group);  // row group + 8 is in them, too
  const std::array<const Operands*, 4> cols[2] = {lanes_of(pair), lanes_of(pair + 1)};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 16; ++k) {
      const T left = rows[k % 8 / 2]->a[2 * (i / 2) + 4 * (k / 8) + k % 2];
      const T right = cols[i % 2][k % 8 / 2]->b[2 * (k / 8) + k % 2];
      c[i] += as_float(left) * as_float(right);
    }
  }
}

template <class T>
void load_down_columns(unsigned (&b)[2], const T* piece, int stride) {
  const int group = static_cast<int>(thread_x() % 32 / 4);
  const int pair = static_cast<int>(thread_x() % 4 * 2);
  for (int half = 0; half < 2; ++half) {
    const T down[2] = {piece[(8 * half + pair) * stride + group],
                       piece[(8 * half + pair + 1) * stride + group]};
    std::memcpy(&b[half], static_cast<const void*>(down), sizeof b[half]);
  }
}

inline int min(int a, int b) {
  return std::min(a, b);
}
inline int max(int a, int b) {
  return std::max(a, b);
}

template <class... Parameters, class... Arguments>
void launch(const Queue& /*queue*/, const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  host::run(grid, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace plumbline::cuda
