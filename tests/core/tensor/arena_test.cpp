// The arena accounts every byte by category, keeps the breakdown of the peak and names the holders when full.
#include "core/tensor/arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "core/base/error.hpp"

namespace plumbline::arena_test {
namespace {

using testing::HasSubstr;

TEST(Arena, CountsExactElementBytesByCategory) {
  Arena arena({}, host_memory());
  const Tensor a = arena.allocate(Category::parameters, "a", 3, 5, DType::fp32);
  const Tensor b = arena.allocate(Category::logits, "b", 1, 7, DType::bf16);
  EXPECT_EQ(arena.allocated()[Category::parameters].value, 60);
  EXPECT_EQ(arena.allocated()[Category::logits].value, 14);
  EXPECT_EQ(arena.allocated_total().value, 74);
  EXPECT_EQ(arena.reserved().value, 128);  // two blocks rounded to 64 bytes
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.matrix().data) % 64, 0U);
}

TEST(Arena, KeepsTheBreakdownOfTheFirstMomentOfThePeak) {
  Arena arena({}, host_memory());
  { const Tensor a = arena.allocate(Category::activations, "a", 1, 100, DType::fp32); }
  {
    const Tensor b = arena.allocate(Category::workspace, "b", 1, 100, DType::fp32);  // ties with the peak
  }
  EXPECT_EQ(arena.peak().value, 400);
  EXPECT_EQ(arena.at_peak()[Category::activations].value, 400);
  EXPECT_EQ(arena.at_peak()[Category::workspace].value, 0);
  EXPECT_EQ(arena.at_peak().total(), arena.peak());
  arena.reset_peak();
  EXPECT_EQ(arena.peak().value, 0);
}

TEST(Arena, ReusesFreedBlocks) {
  Arena arena({}, host_memory());
  void* first = nullptr;
  {
    const Tensor a = arena.allocate(Category::activations, "a", 10, 10, DType::fp32);
    first = a.matrix().data;
  }
  const Tensor b = arena.allocate(Category::workspace, "b", 100, 1, DType::fp32);
  EXPECT_EQ(b.matrix().data, first);
}

/// Has a limited amount.
class SmallMemory final : public MemorySource {
 public:
  explicit SmallMemory(Bytes left) : left_(left) {}
  void* allocate(Bytes bytes) override {
    if (bytes > left_) throw std::bad_alloc();
    left_ -= bytes;
    return host_->allocate(bytes);
  }
  void release(void* data, Bytes bytes) noexcept override {
    left_ += bytes;
    host_->release(data, bytes);
  }

 private:
  Bytes left_;
  std::unique_ptr<MemorySource> host_ = host_memory();
};

TEST(Arena, FreedBlocksOfOtherSizesMakeRoom) {
  Arena arena({}, std::make_unique<SmallMemory>(Bytes{1024}));
  { const Tensor freed = arena.allocate(Category::logits, "freed", 1, 128, DType::fp32); }
  const Tensor kept = arena.allocate(Category::activations, "kept", 1, 64, DType::fp32);
  const Tensor larger = arena.allocate(Category::logits, "larger", 1, 192, DType::fp32);
  EXPECT_EQ(arena.reserved().value, 1024);
  EXPECT_THROW(arena.allocate(Category::workspace, "last straw", 1, 1, DType::fp32), OutOfMemory);
  EXPECT_EQ(arena.allocated_total().value, 1024);
}

TEST(Arena, OverBudgetNamesTheLargestHolders) {
  Arena arena(Bytes{1000}, host_memory());
  const Tensor small = arena.allocate(Category::activations, "small thing", 1, 20, DType::fp32);
  const Tensor large = arena.allocate(Category::logits, "large thing", 1, 200, DType::fp32);
  try {
    const Tensor never = arena.allocate(Category::workspace, "last straw", 1, 50, DType::fp32);
    FAIL() << "fits in 1000 bytes?";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), HasSubstr("last straw (workspace) needs 200 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("largest holders: large thing (logits) 800 bytes in 1, small thing"));
  }
  EXPECT_EQ(arena.allocated_total().value, 880);  // the failed request left nothing behind
}

TEST(Arena, BudgetIsInclusive) {
  Arena arena(Bytes{400}, host_memory());
  EXPECT_NO_THROW(arena.allocate(Category::workspace, "all of it", 1, 100, DType::fp32));
}

TEST(Arena, MovedTensorsAreCountedOnce) {
  Arena arena({}, host_memory());
  Tensor a = arena.allocate(Category::workspace, "a", 1, 1, DType::fp32);
  Tensor b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: tests the moved-from state
  a = std::move(b);
  EXPECT_EQ(arena.allocated_total().value, 4);
  a = arena.allocate(Category::workspace, "c", 1, 2, DType::fp32);
  EXPECT_EQ(arena.allocated_total().value, 8);
  a.reset();
  EXPECT_EQ(arena.allocated_total().value, 0);
}

TEST(Arena, SamplesAreStretchesThatJoin) {
  Arena arena({}, untouched_memory());
  const Tensor kept = arena.allocate(Category::parameters, "kept", 1, 10, DType::fp32);
  { const Tensor t = arena.allocate(Category::workspace, "first", 1, 30, DType::fp32); }
  { const Tensor t = arena.allocate(Category::logits, "as large", 1, 30, DType::fp32); }
  const MemorySample first = arena.sample();
  EXPECT_EQ(first.peak[Category::workspace].value, 120);  // the first moment of the largest total
  EXPECT_EQ(first.peak[Category::logits].value, 0);
  EXPECT_EQ(first.after.total().value, 40);
  Tensor held = arena.allocate(Category::activations, "held", 1, 5, DType::fp32);
  const MemorySample second = arena.sample();
  EXPECT_EQ(second.peak.total().value, 60);  // less than before: a stretch forgets the one before it
  EXPECT_EQ(second.peak, second.after);
  held.reset();
  const MemorySample third = arena.sample();
  EXPECT_EQ(third.peak, second.after);  // its beginning counts
  EXPECT_EQ(third.after, first.after);
  EXPECT_EQ(arena.peak().value, 160);
}

TEST(Arena, KnowsWhoHeldThePeak) {
  Arena arena({}, untouched_memory());
  const Tensor kept = arena.allocate(Category::parameters, "kept", 1, 10, DType::fp32);
  EXPECT_EQ(arena.holders_at_peak().size(), 1U);  // the peak is now
  {
    const Tensor a = arena.allocate(Category::workspace, "pair", 1, 10, DType::fp32);
    const Tensor b = arena.allocate(Category::workspace, "pair", 1, 20, DType::fp32);
  }
  const Tensor later = arena.allocate(Category::logits, "later", 1, 25, DType::fp32);
  const std::vector<HolderBytes> holders = arena.holders_at_peak();
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_STREQ(holders[0].holder, "pair");
  EXPECT_EQ(holders[0].category, Category::workspace);
  EXPECT_EQ(holders[0].bytes.value, 120);
  EXPECT_EQ(holders[0].tensors, 2);
  EXPECT_STREQ(holders[1].holder, "kept");
  arena.reset_peak();
  EXPECT_STREQ(arena.holders_at_peak().front().holder, "later");
}

TEST(Arena, UntouchedMemoryHoldsMoreThanTheMachineHas) {
  Arena arena({}, untouched_memory());
  const Tensor huge = arena.allocate(Category::parameters, "huge", 1 << 20, 1 << 24, DType::fp32);
  EXPECT_EQ(arena.peak(), kGiB * (std::int64_t{64} << 10));
}

TEST(Arena, SpoilsWhatIsReleased) {
  Arena arena({}, host_memory());
  arena.spoil_released();
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16}) {
    Tensor tensor = arena.allocate(Category::workspace, "spoiled", 3, 5, type);
    const Matrix view = tensor;
    std::memset(view.data, 0, static_cast<std::size_t>(view.bytes().value));
    tensor.reset();
    const auto* bytes = static_cast<const unsigned char*>(view.data);
    for (std::int64_t i = 0; i < view.bytes().value; ++i) EXPECT_EQ(bytes[i], 0xff) << i;
  }
}

}  // namespace
}  // namespace plumbline::arena_test
