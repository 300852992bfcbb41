// Reserved memory stays near the largest demand for any sizes, and repeated steps take nothing new.
#include "core/tensor/block_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/arena.hpp"
#include "core/tensor/segmented_memory.hpp"

namespace plumbline::block_cache_test {
namespace {

struct SourceUse {
  Bytes now;
  Bytes most;
  int requests = 0;
};

/// Addresses without memory.
class CountingSource final : public MemorySource {
 public:
  explicit CountingSource(SourceUse& use) : use_(use) {}
  void* allocate(Bytes bytes) override {
    ++use_.requests;
    use_.now += bytes;
    use_.most = std::max(use_.most, use_.now);
    void* data = reinterpret_cast<void*>(next_);  // NOLINT: never dereferenced
    next_ += static_cast<std::uintptr_t>(bytes.value);
    return data;
  }
  void release(void* /*data*/, Bytes bytes) noexcept override { use_.now -= bytes; }

 private:
  SourceUse& use_;
  std::uintptr_t next_ = std::uintptr_t{1} << 30;
};

/// Rows of eight experts in four layers, kept from forward to backward, with workspace in between; a tenth
/// more or fewer rows in every step where they vary.
class Step {
 public:
  Step(Arena& arena, bool varies, std::int64_t row_bytes, bool touches = false)
      : arena_(arena), varies_(varies), row_bytes_(row_bytes), touches_(touches) {}

  void run() {
    std::vector<Tensor> kept;
    for (int layer = 0; layer < 4; ++layer) {
      for (int expert = 0; expert < 8; ++expert) {
        const std::int64_t rows = varies_ ? 900 + static_cast<std::int64_t>(random_() % 200) : 1000;
        const Tensor workspace = of(Category::workspace, 2 * rows);
        kept.push_back(of(Category::activations, rows));
        kept.push_back(of(Category::activations, 3 * rows));
      }
    }
    while (!kept.empty()) {
      const Tensor gradient = of(Category::workspace, kept.back().matrix().rows);
      kept.pop_back();
    }
  }

 private:
  Tensor of(Category category, std::int64_t rows) {
    Tensor made = arena_.allocate(category, "rows", rows, row_bytes_ / 4, DType::fp32);
    if (touches_) std::memset(made.matrix().data, 1, static_cast<std::size_t>(made.matrix().bytes().value));
    return made;
  }

  Arena& arena_;
  bool varies_;
  std::int64_t row_bytes_;
  bool touches_;
  std::mt19937 random_{7};
};

double share(Bytes part, Bytes whole) {
  return static_cast<double>(part.value) / static_cast<double>(whole.value);
}

TEST(BlockCache, ReservesLittleMoreThanThePeakWhateverSizesCome) {
  struct Case {
    const char* name;
    bool varies;
    bool segmented;  // as memory that NCCL knows
    double most;     // reserved of the source, times the peak
  };
  for (const Case& c :
       {Case{"constant sizes", false, false, 1.125}, Case{"sizes of routed rows", true, false, 1.125},
        Case{"constant sizes in segments", false, true, 1.25}}) {
    SCOPED_TRACE(c.name);
    SourceUse use;
    std::unique_ptr<MemorySource> source = std::make_unique<CountingSource>(use);
    if (c.segmented) source = std::make_unique<SegmentedMemory>(std::move(source));
    Arena arena({}, std::move(source));
    Step step(arena, c.varies, 16384);
    for (int i = 0; i < 200; ++i) step.run();
    EXPECT_LE(share(use.most, arena.peak()), c.most);
    EXPECT_LE(share(arena.reserved(), arena.peak()), 1.125);
    const int before = use.requests;
    step.run();
    if (!c.varies) {
      EXPECT_EQ(use.requests, before);
    }
  }
}

TEST(BlockCache, TakesABlockThatIsALittleTooLargeBeforeItReservesMore) {
  SourceUse use;
  BlockCache cache(std::make_unique<CountingSource>(use));
  void* large = cache.take({64000});
  cache.give(large, {64000});
  EXPECT_EQ(cache.take({60000}), large);
  EXPECT_EQ(cache.reserved().value, 64000);
  cache.give(large, {60000});
  void* first = cache.take({64000});
  EXPECT_EQ(first, large);  // it kept its size
  cache.give(first, {64000});
  EXPECT_NE(cache.take({32000}), large);  // much too large
  EXPECT_EQ(cache.reserved().value, 32000);
  EXPECT_EQ(use.now.value, 32000);
}

TEST(BlockCache, ReturnsTheBlocksThatWereFreedFirst) {
  SourceUse use;
  BlockCache cache(std::make_unique<CountingSource>(use));
  void* old = cache.take({6400});
  void* young = cache.take({12800});
  cache.give(old, {6400});
  cache.give(young, {12800});
  void* other = cache.take({8192});
  EXPECT_EQ(cache.reserved().value, 12800 + 8192);
  EXPECT_EQ(cache.take({12800}), young);
  cache.give(other, {8192});
}

Bytes resident() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t pages = 0;
  file >> size >> pages;
  return {pages * ::sysconf(_SC_PAGESIZE)};
}

/// The pages themselves, of blocks from 112 KiB to 3 MiB.
TEST(BlockCache, HostPagesReturnToTheSystem) {
  for (const std::int64_t row_bytes : {128, 1024}) {
    SCOPED_TRACE(std::to_string(row_bytes) + " bytes a row");
    const Bytes before = resident();
    Arena arena({}, host_memory());
    Step step(arena, true, row_bytes, true);
    Bytes most;
    for (int i = 0; i < 5; ++i) {
      step.run();
      most = std::max(most, resident() - before);
    }
    EXPECT_LE(share(most, arena.peak()), 1.25);
  }
}

}  // namespace
}  // namespace plumbline::block_cache_test
