#include "core/tensor/block_cache.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace plumbline {
namespace {

Bytes block_size(Bytes bytes) {
  const std::int64_t unit = BlockCache::kAlignment.value;
  return {(std::max<std::int64_t>(bytes.value, 1) + unit - 1) / unit * unit};
}

}  // namespace

BlockCache::BlockCache(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}

BlockCache::~BlockCache() {
  while (return_oldest()) {
  }
}

void* BlockCache::take(Bytes bytes) {
  const Bytes wanted = block_size(bytes);
  const Bytes limit = with_slack(std::max(peak_, in_use_ + wanted));
  void* data = take_free(wanted);
  if (data == nullptr) {
    while (reserved_ + wanted > limit && return_oldest()) {
    }
    try {
      data = source_->allocate(wanted);
    } catch (const std::bad_alloc&) {  // free blocks may be all that is in the way
      while (return_oldest()) {
      }
      data = source_->allocate(wanted);
    }
    reserved_ += wanted;
  }
  in_use_ += wanted;
  peak_ = std::max(peak_, in_use_);
  return data;
}

void* BlockCache::take_free(Bytes wanted) {
  auto found = free_.lower_bound(wanted);
  if (found != free_.end() && found->first == wanted && !found->second.empty()) return reuse(found);
  // Another size only where a new block would not fit: steps that repeat keep their own sizes.
  if (reserved_ + wanted <= with_slack(std::max(peak_, in_use_ + wanted))) return nullptr;
  while (found != free_.end() && found->second.empty()) ++found;
  if (found == free_.end() || found->first > with_slack(wanted)) return nullptr;
  const Bytes size = found->first;
  void* data = reuse(found);
  larger_.emplace(data, size);
  return data;
}

void* BlockCache::reuse(FreeBlocks::iterator found) {
  void* data = found->second.back().data;  // freed last: it is still in the processor's caches
  found->second.pop_back();
  return data;
}

bool BlockCache::return_oldest() noexcept {
  auto oldest = free_.end();
  for (auto it = free_.begin(); it != free_.end();) {
    if (it->second.empty()) {
      it = free_.erase(it);
      continue;
    }
    if (oldest == free_.end() || it->second.front().when < oldest->second.front().when) oldest = it;
    ++it;
  }
  if (oldest == free_.end()) return false;
  source_->release(oldest->second.front().data, oldest->first);
  reserved_ -= oldest->first;
  oldest->second.pop_front();
  return true;
}

void BlockCache::give(void* data, Bytes bytes) noexcept {
  Bytes size = block_size(bytes);
  in_use_ -= size;
  if (const auto found = larger_.find(data); found != larger_.end()) {
    size = found->second;
    larger_.erase(found);
  }
  free_[size].push_back({data, frees_++});
}

}  // namespace plumbline
