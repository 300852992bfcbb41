#include "core/tensor/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t up_to(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Large blocks are mappings of their own, so that their pages return to the system at once: the heap would
/// keep pages between used blocks.
class HostMemory final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    if (bytes.value < kMapped) {
      void* data = std::aligned_alloc(kAlignment, static_cast<std::size_t>(up_to(bytes.value, kAlignment)));
      if (data == nullptr) throw std::bad_alloc();
      return data;
    }
    const std::int64_t size = mapped_size(bytes);
    // Large blocks start on a huge page: a page fault per 4 KiB would cost more than the kernels that use
    // them.
    const std::int64_t before = size >= kHugePage ? kHugePage : 0;
    void* mapped = ::mmap(nullptr, static_cast<std::size_t>(before + size), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    if (before == 0) return mapped;
    auto* begin = static_cast<std::byte*>(mapped);
    const std::int64_t skipped =
        up_to(reinterpret_cast<std::intptr_t>(begin), kHugePage) - reinterpret_cast<std::intptr_t>(begin);
    if (skipped > 0) ::munmap(begin, static_cast<std::size_t>(skipped));
    if (skipped < before) ::munmap(begin + skipped + size, static_cast<std::size_t>(before - skipped));
    ::madvise(begin + skipped, static_cast<std::size_t>(size), MADV_HUGEPAGE);
    return begin + skipped;
  }
  void release(void* data, Bytes bytes) noexcept override {
    if (bytes.value < kMapped) {
      std::free(data);
    } else {
      ::munmap(data, static_cast<std::size_t>(mapped_size(bytes)));
    }
  }

 private:
  static constexpr std::int64_t kAlignment = BlockCache::kAlignment.value;
  static constexpr std::int64_t kMapped = std::int64_t{64} << 10;

  /// Whole huge pages where that adds at most a sixteenth: their last one becomes resident as a whole.
  static std::int64_t mapped_size(Bytes bytes) {
    const std::int64_t huge = up_to(bytes.value, kHugePage);
    return huge - bytes.value <= bytes.value / 16 ? huge : up_to(bytes.value, ::sysconf(_SC_PAGESIZE));
  }
};

class UntouchedMemory final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* data = reinterpret_cast<void*>(next_);  // NOLINT: never dereferenced
    next_ += static_cast<std::uintptr_t>(bytes.value);
    return data;
  }
  void release(void* /*data*/, Bytes /*bytes*/) noexcept override {}

 private:
  std::uintptr_t next_ = 4096;
};

}  // namespace

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "parameters", "gradients", "optimizer",     "activations",
      "logits",     "teacher",   "communication", "workspace"};
  return kNames[static_cast<std::size_t>(category)];
}

Bytes MemoryBreakdown::total() const {
  Bytes sum;
  for (const Bytes bytes : categories) sum += bytes;
  return sum;
}

std::unique_ptr<MemorySource> host_memory() {
  return std::make_unique<HostMemory>();
}
std::unique_ptr<MemorySource> untouched_memory() {
  return std::make_unique<UntouchedMemory>();
}

Tensor::Tensor(Tensor&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      matrix_(std::exchange(other.matrix_, Matrix())),
      category_(other.category_),
      holder_(other.holder_) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    reset();
    arena_ = std::exchange(other.arena_, nullptr);
    matrix_ = std::exchange(other.matrix_, Matrix());
    category_ = other.category_;
    holder_ = other.holder_;
  }
  return *this;
}

Tensor::~Tensor() {
  reset();
}

void Tensor::reset() noexcept {
  if (arena_ != nullptr) arena_->release(matrix_, category_, holder_);
  arena_ = nullptr;
  matrix_ = Matrix();
}

Arena::Arena(Bytes budget, std::unique_ptr<MemorySource> source)
    : budget_(budget), blocks_(std::move(source)) {}

Tensor Arena::allocate(Category category, const char* holder, std::int64_t rows, std::int64_t cols,
                       DType dtype) {
  const Bytes wanted{rows * cols * size_of(dtype)};
  if (budget_.value > 0 && current_total_ + wanted > budget_) {
    throw OutOfMemory(fmt::format(
        "out of memory: {} ({}) needs {} bytes, {} of the budget of {} bytes are allocated; largest holders: "
        "{}",
        holder, name_of(category), wanted.value, current_total_.value, budget_.value, largest_holders(5)));
  }
  void* data = nullptr;
  try {
    data = blocks_.take(wanted);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format(
        "out of memory: the machine has no {} bytes left for {} ({}); {} bytes are allocated; largest "
        "holders: {}",
        wanted.value, holder, name_of(category), current_total_.value, largest_holders(5)));
  }
  current_[category] += wanted;
  current_total_ += wanted;
  Held& held = holders_[{category, holder}];
  held.bytes += wanted;
  ++held.tensors;
  if (current_total_ > peak_total_) {
    peak_total_ = current_total_;
    at_peak_ = current_;
    at_peak_now_ = true;
  }
  if (current_total_ > sample_peak_total_) {
    sample_peak_total_ = current_total_;
    sample_peak_ = current_;
  }
  return {this, Matrix(data, rows, cols, dtype), category, holder};
}

void Arena::release(const Matrix& matrix, Category category, const char* holder) noexcept {
  const Bytes bytes = matrix.bytes();
  if (at_peak_now_ && bytes.value > 0) {
    holders_at_peak_ = holders_;
    at_peak_now_ = false;
  }
  current_[category] -= bytes;
  current_total_ -= bytes;
  Held& held = holders_[{category, holder}];
  held.bytes -= bytes;
  --held.tensors;
  if (spoils_) std::memset(matrix.data, 0xff, static_cast<std::size_t>(bytes.value));
  blocks_.give(matrix.data, bytes);
}

void Arena::reset_peak() {
  peak_total_ = current_total_;
  at_peak_ = current_;
  at_peak_now_ = true;
}

MemorySample Arena::sample() {
  const MemorySample stretch{sample_peak_, current_};
  sample_peak_ = current_;
  sample_peak_total_ = current_total_;
  return stretch;
}

std::vector<HolderBytes> Arena::sorted(const Holders& holders) {
  std::vector<HolderBytes> rows;
  for (const auto& [key, held] : holders) {
    if (held.bytes.value > 0) rows.push_back({key.second, key.first, held.bytes, held.tensors});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const HolderBytes& a, const HolderBytes& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : std::string_view(a.holder) < b.holder;
  });
  return rows;
}

std::vector<HolderBytes> Arena::holders_at_peak() const {
  return sorted(at_peak_now_ ? holders_ : holders_at_peak_);
}

std::string Arena::largest_holders(int count) const {
  std::string text;
  for (const HolderBytes& row : sorted(holders_)) {
    if (count-- == 0) break;
    text += fmt::format("{}{} ({}) {} bytes in {}", text.empty() ? "" : ", ", row.holder,
                        name_of(row.category), row.bytes.value, row.tensors);
  }
  return text.empty() ? "none" : text;
}

}  // namespace plumbline
