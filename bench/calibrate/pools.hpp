// Memory for calibration: operands that are in cache or not as they would be in a training step.
#pragma once

#include <cstdint>
#include <memory>

#include "core/matrix.hpp"
#include "core/units.hpp"

namespace plumbline::calibration {

/// A block of memory that is handed out piece by piece and reused for every cell. Placed as core/arena.hpp
/// places tensors: 64-byte aligned, on huge pages and their boundaries when large.
class Pool {
 public:
  enum class Content { zeros, normal_fp32, normal_bf16 };
  Pool(Bytes size, Content content);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void rewind() { used_ = 0; }
  /// The next piece; throws Error when the pool is used up.
  void* take(std::int64_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_;
  std::int64_t used_ = 0;
};

/// An operand of which every call sees another copy, so that it comes from as deep in the memory hierarchy as
/// the copies are large together.
class Rotation {
 public:
  Rotation() = default;
  Rotation(Matrix first, std::int64_t step, std::int64_t copies)
      : first_(first), step_(step), copies_(copies) {}
  Matrix at(std::int64_t call) const {
    Matrix matrix = first_;
    matrix.data = static_cast<std::byte*>(first_.data) + call % copies_ * step_;
    return matrix;
  }

 private:
  Matrix first_;
  std::int64_t step_ = 0;
  std::int64_t copies_ = 1;
};

/// The pools of one process: random inputs in the storage type under test, fp32 state, and outputs.
class Pools {
 public:
  static constexpr Bytes kSize = kMiB * 192;
  Pools(DType storage);

  DType storage() const { return storage_; }
  /// Starts a cell whose rotating operands add up to `bytes_per_call` and should touch `working_set`
  /// together.
  void begin(Bytes working_set, Bytes bytes_per_call);
  /// One copy for all calls: an operand the call before has just written or read.
  Matrix fresh(std::int64_t rows, std::int64_t cols);
  /// Read, last touched a working set ago.
  Rotation saved(std::int64_t rows, std::int64_t cols);
  /// Written, last touched a working set ago.
  Rotation output(std::int64_t rows, std::int64_t cols);
  /// The same in fp32, random numbers and zeros.
  Rotation saved_fp32(std::int64_t rows, std::int64_t cols);
  Rotation output_fp32(std::int64_t rows, std::int64_t cols);
  /// fp32 zeros of which all calls use one copy: statistics, scratch.
  Matrix scratch(std::int64_t elements);
  /// Token ids below `limit`, in random order.
  Matrix tokens(std::int64_t count, std::int64_t limit);

 private:
  Rotation rotate(Pool& pool, std::int64_t rows, std::int64_t cols, DType type);

  DType storage_;
  std::int64_t copies_ = 1;
  Pool inputs_;
  Pool state_;
  Pool outputs_;
};

}  // namespace plumbline::calibration
