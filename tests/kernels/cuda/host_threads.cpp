// Kernels with a host thread for every CUDA thread and two blocks at once, under ThreadSanitizer. It reports
// a race for a missing barrier, or two blocks that write one place. PLUMBLINE_WITHOUT_BARRIERS leaves block
// barriers out, to check that it does.
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cuda/device/intrinsics.cuh"
#include "tests/kernels/cuda/host_shared_memory.hpp"

namespace plumbline::cuda::host {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kMostShown = 32;

/// Waits for those of `count` threads that have not left.
class Meeting {
 public:
  explicit Meeting(unsigned count) : count_(count) {}
  void wait() {
    std::unique_lock lock(mutex_);
    if (++here_ >= count_) return let_go();
    const unsigned round = round_;
    changed_.wait(lock, [&] { return round_ != round; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --count_;
    if (here_ > 0 && here_ >= count_) let_go();
  }

 private:
  void let_go() {
    here_ = 0;
    ++round_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned count_, here_ = 0, round_ = 0;
};

struct Lane {
  unsigned shows = 0;
  unsigned char slots[2][kMostShown];  // of this show and the one before, which a slower lane still reads
};

struct Block {
  explicit Block(unsigned threads) : all(threads), lanes(threads) {
    for (unsigned i = 0; i < threads / kWarp; ++i) warps.push_back(std::make_unique<Meeting>(kWarp));
  }
  Meeting all;
  std::vector<std::unique_ptr<Meeting>> warps;
  std::vector<Lane> lanes;
};

thread_local Position own_position;
thread_local Block* own_block = nullptr;

bool barriers() {
  static const bool wanted = std::getenv("PLUMBLINE_WITHOUT_BARRIERS") == nullptr;
  return wanted;
}

/// One thread of the blocks first, first + kBlocksAtOnce, ...
void run_thread(const Grid& grid, const std::function<void()>& kernel,
                std::vector<std::unique_ptr<Block>>& blocks, unsigned first, unsigned thread,
                Meeting& together) {
  belong_to_block(static_cast<int>(first));
  for (unsigned i = first; i < blocks.size(); i += kBlocksAtOnce) {
    own_block = blocks[i].get();
    own_position = {thread, grid.threads, i % grid.x, i / grid.x, grid.x, grid.y};
    if (thread == 0) poison_dynamic_shared();
    together.wait();
    kernel();
    own_block->all.leave();
    together.wait();
  }
}

}  // namespace

void run(const Grid& grid, const std::function<void()>& kernel) {
  std::vector<std::unique_ptr<Block>> blocks;
  for (unsigned i = 0; i < grid.x * grid.y; ++i) blocks.push_back(std::make_unique<Block>(grid.threads));
  std::vector<std::unique_ptr<Meeting>> together;
  std::vector<std::thread> threads;
  for (unsigned first = 0; first < kBlocksAtOnce; ++first) {
    together.push_back(std::make_unique<Meeting>(grid.threads));
    for (unsigned thread = 0; thread < grid.threads; ++thread) {
      threads.emplace_back([&, first, thread, meeting = together.back().get()] {
        run_thread(grid, kernel, blocks, first, thread, *meeting);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

const Position& position() {
  return own_position;
}

void wait_for_block() {
  if (barriers()) own_block->all.wait();
}

void show(const void* value, std::size_t bytes) {
  Lane& lane = own_block->lanes[own_position.thread];
  std::memcpy(lane.slots[lane.shows++ % 2], value, bytes);
  own_block->warps[own_position.thread / kWarp]->wait();
}

const void* shown_across(int mask) {
  return shown_by(own_position.thread % kWarp ^ static_cast<unsigned>(mask));
}

const void* shown_by(unsigned lane) {
  const unsigned own = own_position.thread;
  const std::vector<Lane>& lanes = own_block->lanes;
  return lanes[own / kWarp * kWarp + lane].slots[(lanes[own].shows - 1) % 2];
}

}  // namespace plumbline::cuda::host
