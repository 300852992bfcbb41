// Fibers of the processor that tests run CUDA kernels on.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/cuda/device/intrinsics.cuh"

namespace plumbline::cuda::host {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStack = std::size_t{64} << 10;
constexpr std::size_t kMostShared = std::size_t{227} << 10;  // of compute capability 9.0
constexpr std::size_t kGuard = 4096;
constexpr std::size_t kMostShown = 32;
constexpr unsigned char kPoison = 0xFF;  // NaN in every storage type

enum class State { ready, at_barrier, at_show, done };

struct Fiber {
  jmp_buf place{};  // where it waits
  bool started = false;
  std::vector<unsigned char> stack = std::vector<unsigned char>(kStack);
  State state = State::done;
  unsigned shows = 0;
  unsigned char slots[2][kMostShown];  // of this show and the one before, which a slower lane still reads
};

struct Processor {
  std::vector<Fiber> fibers;
  std::vector<unsigned char> shared = std::vector<unsigned char>(kMostShared + kGuard + 16);
  jmp_buf scheduler{};
  Position position;
  const std::function<void()>* kernel = nullptr;
  bool reversed = false;
};
Processor& processor() {
  static Processor instance;
  return instance;
}

[[noreturn]] void fail(const char* what) {
  const Position& p = processor().position;
  std::fprintf(stderr, "host processor: %s (block %u,%u thread %u)\n", what, p.block_x, p.block_y, p.thread);
  std::abort();
}

Fiber& current() {
  return processor().fibers[processor().position.thread];
}

// A context is made once, to get onto a fiber's stack; from then on it is entered and left by jumps, which,
// unlike swapcontext, need no system calls.
void leave(State state) {
  Fiber& fiber = current();
  fiber.state = state;
  if (_setjmp(fiber.place) == 0) _longjmp(processor().scheduler, 1);
}

/// Work of a fiber: the kernel for one block after another.
void start() {
  for (;;) {
    (*processor().kernel)();
    leave(State::done);
  }
}

/// Lets thread `index` run until it waits or ends.
void resume(unsigned index) {
  Processor& p = processor();
  p.position.thread = index;
  Fiber& fiber = p.fibers[index];
  if (_setjmp(p.scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  ucontext_t fresh;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = fiber.stack.data();
  fresh.uc_stack.ss_size = fiber.stack.size();
  fresh.uc_link = nullptr;
  makecontext(&fresh, start, 0);
  setcontext(&fresh);
}

/// Runs every ready thread of a warp; true when there was one. Lanes that all wait for each other are ready
/// again.
bool run_warp(unsigned first, unsigned last) {
  Processor& p = processor();
  bool progress = false;
  for (unsigned step = first; step < last; ++step) {
    const unsigned index = p.reversed ? first + last - 1 - step : step;
    if (p.fibers[index].state != State::ready) continue;
    progress = true;
    resume(index);
  }
  unsigned waiting = 0;
  for (unsigned i = first; i < last; ++i) waiting += p.fibers[i].state == State::at_show ? 1 : 0;
  if (waiting == 0) return progress;
  if (waiting != last - first || last - first != kWarp)
    fail("a shuffle that not all lanes of the warp reach");
  for (unsigned i = first; i < last; ++i) p.fibers[i].state = State::ready;
  return true;
}

void run_block() {
  Processor& p = processor();
  const unsigned threads = p.position.threads;
  for (unsigned i = 0; i < threads; ++i) {
    p.fibers[i].state = State::ready;
    p.fibers[i].shows = 0;
  }
  for (;;) {
    bool progress = false;
    for (unsigned first = 0; first < threads; first += kWarp) {
      const unsigned warp = p.reversed ? threads - kWarp - first : first;
      progress = run_warp(warp, warp + kWarp) || progress;
    }
    if (progress) continue;
    unsigned waiting = 0;
    unsigned done = 0;
    for (unsigned i = 0; i < threads; ++i) {
      waiting += p.fibers[i].state == State::at_barrier ? 1 : 0;
      done += p.fibers[i].state == State::done ? 1 : 0;
    }
    if (done == threads) return;
    if (waiting + done != threads) fail("a barrier that not all threads of the block reach");
    for (unsigned i = 0; i < threads; ++i) {
      if (p.fibers[i].state == State::at_barrier) p.fibers[i].state = State::ready;
    }
  }
}

}  // namespace

void run(const Grid& grid, const std::function<void()>& kernel) {
  Processor& p = processor();
  if (grid.threads == 0 || grid.threads > 1024 || grid.threads % kWarp != 0) fail("a block of a bad size");
  if (grid.x == 0 || grid.y == 0 || grid.y > 65535) fail("a grid of a bad size");
  if (grid.dynamic_shared > kMostShared) fail("more dynamic shared memory than a block can have");
  if (p.fibers.size() < grid.threads) p.fibers.resize(grid.threads);
  p.kernel = &kernel;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      p.position = {0, grid.threads, x, y, grid.x, grid.y};
      std::fill_n(dynamic_shared(), grid.dynamic_shared + kGuard, kPoison);
      run_block();
      p.reversed = !p.reversed;
      const unsigned char* end = dynamic_shared() + grid.dynamic_shared;
      if (!std::all_of(end, end + kGuard, [](unsigned char byte) { return byte == kPoison; })) {
        fail("a write past the dynamic shared memory");
      }
    }
  }
}

const Position& position() {
  return processor().position;
}

void wait_for_block() {
  leave(State::at_barrier);
}

void show(const void* value, std::size_t bytes) {
  if (bytes > kMostShown) fail("a lane shows more than 32 bytes");
  Fiber& fiber = current();
  std::memcpy(fiber.slots[fiber.shows++ % 2], value, bytes);
  leave(State::at_show);
}

const void* shown_across(int mask) {
  return shown_by(position().thread % kWarp ^ static_cast<unsigned>(mask));
}

const void* shown_by(unsigned lane) {
  const Processor& p = processor();
  const unsigned own = p.position.thread;
  return p.fibers[own / kWarp * kWarp + lane].slots[(p.fibers[own].shows - 1) % 2];
}

unsigned char* dynamic_shared() {
  auto start_address = reinterpret_cast<std::uintptr_t>(processor().shared.data());
  return processor().shared.data() + (16 - start_address % 16) % 16;
}

}  // namespace plumbline::cuda::host
