// The one place a rank gets tensor memory from: budgeted, accounted by category, with the holders at the
// peak.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "core/tensor/block_cache.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// Purpose of a tensor; the memory keys of a record.
enum class Category : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  logits,
  teacher,
  communication,
  workspace,
};
constexpr int kCategories = 8;
std::string_view name_of(Category category);

/// Bytes per category.
struct MemoryBreakdown {
  std::array<Bytes, kCategories> categories{};
  Bytes& operator[](Category c) { return categories[static_cast<std::size_t>(c)]; }
  Bytes operator[](Category c) const { return categories[static_cast<std::size_t>(c)]; }
  Bytes total() const;
  friend bool operator==(const MemoryBreakdown&, const MemoryBreakdown&) = default;
};

/// Memory over a stretch of work, such as one action.
struct MemorySample {
  MemoryBreakdown peak;   // at the first moment of the stretch's largest total
  MemoryBreakdown after;  // at its end
  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

/// Total bytes of the live tensors of one name and category.
struct HolderBytes {
  const char* holder = "";
  Category category = Category::workspace;
  Bytes bytes;
  std::int64_t tensors = 0;
};

/// Host memory, 64-byte aligned, huge pages where the system offers them.
std::unique_ptr<MemorySource> host_memory();
/// Addresses that nobody may touch: every allocation is accounted, none is backed by memory.
std::unique_ptr<MemorySource> untouched_memory();

class Arena;

/// A matrix that returns its bytes to the arena when it goes. Move-only; must not outlive its arena.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();
  const Matrix& matrix() const { return matrix_; }
  operator const Matrix&() const { return matrix_; }  // NOLINT: a tensor is passed where a view is wanted
  explicit operator bool() const { return arena_ != nullptr; }
  Category category() const { return category_; }
  const char* holder() const { return holder_; }
  void reset() noexcept;

 private:
  friend class Arena;
  Tensor(Arena* arena, Matrix matrix, Category category, const char* holder)
      : arena_(arena), matrix_(matrix), category_(category), holder_(holder) {}
  Arena* arena_ = nullptr;
  Matrix matrix_;
  Category category_ = Category::workspace;
  const char* holder_ = "";
};

/// Tensor memory of one rank. *Allocated* bytes are exactly the elements of the live tensors, as a closed
/// form can predict them. *Reserved* bytes were taken from the source, rounding and cached free blocks
/// included: at most 9/8 of the largest allocation (BlockCache). Not thread-safe: a rank is one thread.
class Arena {
 public:
  /// `budget` bounds the allocated bytes; 0 means no bound.
  Arena(Bytes budget, std::unique_ptr<MemorySource> source);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A tensor of rows × cols elements, contents undefined. `holder` names its owner in error messages and
  /// must be a string literal. Throws OutOfMemory, naming the largest holders, when the budget would be
  /// exceeded.
  Tensor allocate(Category category, const char* holder, std::int64_t rows, std::int64_t cols, DType dtype);

  const MemoryBreakdown& allocated() const { return current_; }
  Bytes allocated_total() const { return current_total_; }
  Bytes peak() const { return peak_total_; }
  /// Bytes by category at the first moment of the peak.
  const MemoryBreakdown& at_peak() const { return at_peak_; }
  Bytes reserved() const { return blocks_.reserved(); }
  Bytes budget() const { return budget_; }
  /// Who held how much at that moment, biggest first.
  std::vector<HolderBytes> holders_at_peak() const;
  /// From now on released tensors become NaN in every floating-point type, so that a read of one is seen. For
  /// memory that the host can write.
  void spoil_released() { spoils_ = true; }
  /// Sets the peak to the bytes allocated now. Samples continue as they were.
  void reset_peak();
  /// The stretch since the last sample, or since construction; its beginning counts, too.
  MemorySample sample();
  /// The largest holders now, biggest first, as "holder category bytes" lines for people.
  std::string largest_holders(int count) const;

 private:
  friend class Tensor;
  struct Held {
    Bytes bytes;
    std::int64_t tensors = 0;
  };
  using Holders = std::map<std::pair<Category, const char*>, Held>;
  static std::vector<HolderBytes> sorted(const Holders& holders);
  void release(const Matrix& matrix, Category category, const char* holder) noexcept;

  Bytes budget_;
  bool spoils_ = false;
  BlockCache blocks_;
  MemoryBreakdown current_;
  MemoryBreakdown at_peak_;
  Bytes current_total_;
  Bytes peak_total_;
  Holders holders_;
  Holders holders_at_peak_;
  bool at_peak_now_ = true;  // nothing was released since the peak: holders_ are the holders at the peak
  MemoryBreakdown sample_peak_;
  Bytes sample_peak_total_;
};

}  // namespace plumbline
