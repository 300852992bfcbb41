// Freed blocks of a memory source, kept for the next request, within a bound of the largest demand.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "core/base/units.hpp"

namespace plumbline {

/// Source of the bytes. `allocate` throws std::bad_alloc or Error when the device has none left.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(Bytes bytes) = 0;
  virtual void release(void* data, Bytes bytes) noexcept = 0;
};

/// Reuses freed blocks of the same size. Sizes that vary from step to step (tokens per expert) would fill it
/// with blocks that are never requested again. A request that would reserve more than kSlack of the peak
/// therefore takes a block that is at most kSlack too large, or returns the blocks that were freed first. So
/// reserved bytes are at most kSlack times the peak, and repeated requests ask the source for nothing.
class BlockCache {
 public:
  static constexpr Bytes kAlignment{64};  // of block sizes
  /// Nine eighths, rounded down.
  static constexpr Bytes with_slack(Bytes bytes) { return bytes + bytes / 8; }

  explicit BlockCache(std::unique_ptr<MemorySource> source);
  /// Blocks that are in use must have been given back.
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Throws std::bad_alloc when the source has nothing left, though all free blocks were returned to it.
  void* take(Bytes bytes);
  /// `bytes` as in take().
  void give(void* data, Bytes bytes) noexcept;
  /// Bytes taken from the source, free blocks included.
  Bytes reserved() const { return reserved_; }

 private:
  struct Freed {
    void* data = nullptr;
    std::uint64_t when = 0;
  };
  using FreeBlocks = std::map<Bytes, std::deque<Freed>>;  // by size, in the order in which they were freed

  void* take_free(Bytes wanted);
  void* reuse(FreeBlocks::iterator found);
  bool return_oldest() noexcept;

  std::unique_ptr<MemorySource> source_;
  FreeBlocks free_;
  std::unordered_map<void*, Bytes> larger_;  // blocks in use that are larger than requested
  std::uint64_t frees_ = 0;
  Bytes in_use_;  // as asked for
  Bytes peak_;    // of in_use_
  Bytes reserved_;
};

}  // namespace plumbline
