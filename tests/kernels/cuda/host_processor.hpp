// A CPU in the place of a GPU for kernels/cuda: what intrinsics.cuh promises, with every thread of a block as
// a fiber. Blocks run one after the other, every second one with its threads in reverse order, so that a
// missing barrier shows as a wrong number. A shuffle or barrier that not all threads reach, and a write past
// a block's dynamic shared memory, end the process with a message. Speed, and the order of memory accesses
// between blocks, are not those of a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

// Shared by all fibers of a block, and blocks follow each other.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace plumbline::cuda {

namespace host {

/// Runs `kernel` for every thread of the grid.
void run(const Grid& grid, const std::function<void()>& kernel);

struct Position {
  unsigned thread = 0, threads = 0, block_x = 0, block_y = 0, grid_x = 0, grid_y = 0;
};
/// Of the fiber that runs now.
const Position& position();
void wait_for_block();
/// Leaves `bytes` bytes of this lane's and returns those of the lane whose number differs in the bits of
/// `mask`.
void exchange(void* value, std::size_t bytes, int mask);
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
  host::exchange(&value, sizeof value, mask);
  return value;
}
inline unsigned char* dynamic_shared() {
  return host::dynamic_shared();
}
inline int min(int a, int b) {
  return std::min(a, b);
}

template <class... Parameters, class... Arguments>
void launch(const Queue& /*queue*/, const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  host::run(grid, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace plumbline::cuda
