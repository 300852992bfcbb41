#include "core/tensor/segmented_memory.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace plumbline {
namespace {

constexpr Bytes kPieceAlignment{512};

Bytes up_to(Bytes bytes, Bytes to) {
  return {(std::max<std::int64_t>(bytes.value, 1) + to.value - 1) / to.value * to.value};
}

}  // namespace

SegmentedMemory::~SegmentedMemory() {
  for (const auto& [data, bytes] : segments_) source_->release(data, bytes);
}

void* SegmentedMemory::allocate(Bytes bytes) {
  const Bytes wanted = up_to(bytes, kPieceAlignment);
  if (void* data = cut(wanted)) return data;
  const Bytes least = up_to(wanted, kPage);
  const Bytes liked = up_to(std::max({wanted, kLeast, reserved_ / 8}), kPage);
  if (!add_segment(liked) && !(least < liked && add_segment(least))) {
    return_empty_segments();
    if (!add_segment(least)) throw std::bad_alloc();
  }
  return cut(wanted);
}

void* SegmentedMemory::cut(Bytes bytes) {
  auto best = holes_.end();
  for (auto it = holes_.begin(); it != holes_.end(); ++it) {
    const Bytes room = it->second.bytes;
    if (room >= bytes && (best == holes_.end() || room < best->second.bytes)) best = it;
  }
  if (best == holes_.end()) return nullptr;
  std::byte* data = best->first;
  const Hole rest{best->second.bytes - bytes, best->second.segment};
  holes_.erase(best);
  if (rest.bytes.value > 0) holes_.emplace(data + bytes.value, rest);
  return data;
}

bool SegmentedMemory::add_segment(Bytes bytes) {
  void* data = nullptr;
  try {
    data = source_->allocate(bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  auto* begin = static_cast<std::byte*>(data);
  segments_.emplace(begin, bytes);
  holes_.emplace(begin, Hole{bytes, begin});
  reserved_ += bytes;
  return true;
}

void SegmentedMemory::release(void* data, Bytes bytes) noexcept {
  auto* begin = static_cast<std::byte*>(data);
  std::byte* segment = std::prev(segments_.upper_bound(begin))->first;
  Hole hole{up_to(bytes, kPieceAlignment), segment};
  const auto after = holes_.find(begin + hole.bytes.value);
  if (after != holes_.end() && after->second.segment == segment) {
    hole.bytes += after->second.bytes;
    holes_.erase(after);
  }
  const auto next = holes_.lower_bound(begin);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->second.segment == segment && before->first + before->second.bytes.value == begin) {
      before->second.bytes += hole.bytes;
      return;
    }
  }
  holes_.emplace(begin, hole);
}

void SegmentedMemory::return_empty_segments() noexcept {
  for (auto it = segments_.begin(); it != segments_.end();) {
    const auto [data, bytes] = *it;
    const auto hole = holes_.find(data);
    if (hole == holes_.end() || hole->second.bytes != bytes) {
      ++it;
      continue;
    }
    holes_.erase(hole);
    source_->release(data, bytes);
    reserved_ -= bytes;
    it = segments_.erase(it);
  }
}

}  // namespace plumbline
