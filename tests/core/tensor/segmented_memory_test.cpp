// Many pieces out of few segments. Holes are used again and joined, never across segments; empty segments go
// back when the source has nothing left.
#include "core/tensor/segmented_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <new>
#include <random>
#include <vector>

namespace plumbline::segmented_memory_test {
namespace {

constexpr Bytes kMiB{std::int64_t{1} << 20};

/// Addresses without memory, one segment right behind the other, and a limit.
struct Source {
  Bytes left{std::int64_t{1} << 40};
  std::uintptr_t next = 1 << 20;
  std::map<void*, Bytes> given;
  std::vector<Bytes> asked;
};

class CountedMemory final : public MemorySource {
 public:
  explicit CountedMemory(Source& source) : source_(source) {}
  void* allocate(Bytes bytes) override {
    source_.asked.push_back(bytes);
    if (bytes > source_.left) throw std::bad_alloc();
    source_.left -= bytes;
    void* data = reinterpret_cast<void*>(source_.next);  // NOLINT: never dereferenced
    source_.next += static_cast<std::uintptr_t>(bytes.value);
    source_.given[data] = bytes;
    return data;
  }
  void release(void* data, Bytes bytes) noexcept override {
    EXPECT_EQ(source_.given[data].value, bytes.value);
    source_.given.erase(data);
    source_.left += bytes;
  }

 private:
  Source& source_;
};

TEST(SegmentedMemory, CutsManyPiecesOutOfOneSegment) {
  Source source;
  {
    SegmentedMemory memory(std::make_unique<CountedMemory>(source));
    void* first = memory.allocate({100});
    void* second = memory.allocate(kMiB);
    EXPECT_EQ(static_cast<std::byte*>(second) - static_cast<std::byte*>(first), 512);
    EXPECT_EQ(memory.reserved().value, SegmentedMemory::kLeast.value);
    EXPECT_EQ(source.given.size(), 1U);
    memory.release(first, {100});
    memory.release(second, kMiB);
    // Both holes and the rest are one again.
    EXPECT_EQ(memory.allocate(SegmentedMemory::kLeast), first);
    memory.release(first, SegmentedMemory::kLeast);
  }
  EXPECT_TRUE(source.given.empty());
}

TEST(SegmentedMemory, TakesTheSmallestHoleThatIsLargeEnough) {
  Source source;
  SegmentedMemory memory(std::make_unique<CountedMemory>(source));
  std::vector<void*> pieces;
  for (const int mib : {4, 1, 2, 1, 3}) pieces.push_back(memory.allocate(kMiB * mib));
  memory.release(pieces[0], kMiB * 4);
  memory.release(pieces[2], kMiB * 2);
  EXPECT_EQ(memory.allocate(kMiB * 2), pieces[2]);
  EXPECT_EQ(memory.allocate(kMiB * 3), pieces[0]);
}

TEST(SegmentedMemory, SegmentsGrowWithWhatThereIs) {
  Source source;
  SegmentedMemory memory(std::make_unique<CountedMemory>(source));
  memory.allocate(kMiB * 1024 + Bytes{1});
  EXPECT_EQ(source.asked.back().value, (kMiB * 1026).value);  // whole pages
  memory.allocate(kMiB * 2);
  EXPECT_EQ(source.asked.back().value, (kMiB * 130).value);  // an eighth, in whole pages
  EXPECT_EQ(memory.reserved().value, (kMiB * 1156).value);
}

TEST(SegmentedMemory, TakesLessOrGivesBackWhatIsEmptyBeforeItRefuses) {
  Source source;
  source.left = kMiB * 100;
  SegmentedMemory memory(std::make_unique<CountedMemory>(source));
  void* first = memory.allocate(kMiB * 60);
  void* second = memory.allocate(kMiB * 10);  // the source does not have 64 MiB: exactly the needed bytes
  EXPECT_EQ(source.asked.back().value, (kMiB * 10).value);
  memory.release(first, kMiB * 60);
  // The hole of 64 MiB is next to the source's last 26 MiB, but a piece is within one segment.
  void* large = memory.allocate(kMiB * 80);
  EXPECT_EQ(source.given.size(), 2U);
  EXPECT_EQ(memory.reserved().value, (kMiB * 90).value);
  EXPECT_THROW(memory.allocate(kMiB * 30), std::bad_alloc);
  memory.release(second, kMiB * 10);
  memory.release(large, kMiB * 80);
}

TEST(SegmentedMemory, PiecesNeverOverlapAndNeverCrossSegments) {
  Source source;
  SegmentedMemory memory(std::make_unique<CountedMemory>(source));
  std::mt19937 random(7);
  std::map<std::byte*, Bytes> pieces;
  for (int i = 0; i < 4000; ++i) {
    if (pieces.size() > 40 || (!pieces.empty() && random() % 3 == 0)) {
      const auto gone = std::next(pieces.begin(), static_cast<std::ptrdiff_t>(random() % pieces.size()));
      memory.release(gone->first, gone->second);
      pieces.erase(gone);
      continue;
    }
    const Bytes bytes{static_cast<std::int64_t>(1 + random() % (16 << 20))};
    auto* data = static_cast<std::byte*>(memory.allocate(bytes));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(data) % 512, 0U);
    const auto after = pieces.lower_bound(data);
    if (after != pieces.end()) {
      ASSERT_LE(data + bytes.value, after->first);
    }
    if (after != pieces.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second.value, data);
    }
    const auto segment = std::prev(source.given.upper_bound(data));
    ASSERT_LE(data + bytes.value, static_cast<std::byte*>(segment->first) + segment->second.value);
    pieces.emplace(data, bytes);
  }
  for (const auto& [data, bytes] : pieces) memory.release(data, bytes);
  // All of it is in holes as large as segments: no more is asked for.
  const std::size_t asked = source.asked.size();
  std::vector<Bytes> segments;
  for (const auto& [data, bytes] : source.given) segments.push_back(bytes);
  for (const Bytes bytes : segments) memory.allocate(bytes);
  EXPECT_EQ(source.asked.size(), asked);
}

}  // namespace
}  // namespace plumbline::segmented_memory_test
