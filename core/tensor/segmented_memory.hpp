// Few large pieces of memory in place of many small ones, for sources whose pieces are expensive: registered
// with a network.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "core/tensor/arena.hpp"

namespace plumbline {

/// Cuts requests out of segments of another source. A segment is as large as the request, and at least kLeast
/// and an eighth of the present total, where the source has that much. It is returned when none of it is in
/// use and the source has nothing else left, or at the end. The smallest hole that is large enough is taken,
/// so ranks with the same requests have the same offsets in their segments.
class SegmentedMemory final : public MemorySource {
 public:
  static constexpr Bytes kLeast{std::int64_t{64} << 20};
  static constexpr Bytes kPage{std::int64_t{2} << 20};  // segments are multiples of the device's large pages

  explicit SegmentedMemory(std::unique_ptr<MemorySource> segments) : source_(std::move(segments)) {}
  ~SegmentedMemory() override;
  SegmentedMemory(const SegmentedMemory&) = delete;
  SegmentedMemory& operator=(const SegmentedMemory&) = delete;

  /// Aligned to 512 bytes. Throws std::bad_alloc whenever the source does.
  void* allocate(Bytes bytes) override;
  void release(void* data, Bytes bytes) noexcept override;

  /// Total of all segments.
  Bytes reserved() const { return reserved_; }

 private:
  struct Hole {
    Bytes bytes;
    std::byte* segment;  // where its segment begins: holes of two segments stay two
  };
  using Holes = std::map<std::byte*, Hole>;

  void* cut(Bytes bytes);
  bool add_segment(Bytes bytes);
  void return_empty_segments() noexcept;

  std::unique_ptr<MemorySource> source_;
  std::map<std::byte*, Bytes> segments_;
  Holes holes_;
  Bytes reserved_;
};

}  // namespace plumbline
