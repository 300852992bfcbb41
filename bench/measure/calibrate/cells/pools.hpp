// Memory for calibration: operands that are in cache or not as they would be in a training step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline::calibration {

/// A block of memory that is handed out piece by piece and reused for every cell. Core/arena.hpp places
/// tensors of 2 MiB and more on huge pages and smaller ones on ordinary pages, which takes noticeably longer
/// to read.
class Pool {
 public:
  enum class Content { zeros, normal_fp32, normal_bf16 };  // normal_bf16 read as fp32 is normal, too
  enum class Pages { huge, ordinary };
  Pool(Bytes size, Content content, Pages pages);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void rewind() { used_ = 0; }
  /// Bytes that have not been taken.
  std::int64_t left() const { return size_ - used_; }
  /// Zeros in all of it.
  void clear();
  /// Reads all pieces that have been taken.
  void touch_taken() const;
  /// The next piece; throws Error when the pool is used up.
  void* take(std::int64_t bytes);

 private:
  Pages pages_;
  std::byte* data_ = nullptr;
  std::int64_t size_;
  std::int64_t used_ = 0;
};

/// An operand of which every call sees another copy, so that its depth in the memory hierarchy follows from
/// the total size of the copies.
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

/// Sizes of a process's pools.
struct PoolSizes {
  Bytes large = kMiB * 224;       // weights, gradients, optimizer state
  Bytes state = kMiB * 112;       // fp32 inputs
  Bytes small = kMiB * 80;        // activations below 2 MiB
  Bytes activations = kMiB * 64;  // activations rotate through no more than this
};

/// The pools of one process: random inputs, fp32 state, and outputs.
class Pools {
 public:
  explicit Pools(const PoolSizes& sizes = {});

  DType storage() const { return storage_; }
  /// Sets the type of operands from now on. Data of another type is discarded: misread, it could be numbers
  /// that no training has and that take longer.
  void set_storage(DType storage);
  /// Starts a cell whose rotating operands add up to `bytes_per_call` and should touch `working_set`
  /// together, as far as the pools are large enough.
  void begin(Bytes working_set, Bytes bytes_per_call);
  /// Brings every copy of every operand into the shared cache, if it is large enough.
  void touch_all();
  /// One copy for all calls: an operand the operator before has just written.
  Matrix fresh(std::int64_t rows, std::int64_t cols);
  /// An activation that is read, last touched a working set ago.
  Rotation saved(std::int64_t rows, std::int64_t cols);
  /// An activation that is written.
  Rotation output(std::int64_t rows, std::int64_t cols);
  /// A dropout mask as fresh(), as saved() and as output(). A saved mask is random.
  Matrix fresh_mask(std::int64_t rows, std::int64_t cols);
  Rotation saved_mask(std::int64_t rows, std::int64_t cols);
  Rotation mask(std::int64_t rows, std::int64_t cols);
  /// In FP8: as fresh(), as weights() and as output().
  Matrix fresh_quantized(std::int64_t rows, std::int64_t cols);
  Rotation weights_quantized(std::int64_t rows, std::int64_t cols);
  Rotation output_quantized(std::int64_t rows, std::int64_t cols);
  /// Parts of one large tensor: weights that are read, parameters that are updated.
  Rotation weights(std::int64_t rows, std::int64_t cols);
  Rotation updated(std::int64_t rows, std::int64_t cols);
  /// The same in fp32: gradients that are read; gradients and optimizer state that are updated.
  Rotation weights_fp32(std::int64_t rows, std::int64_t cols);
  Rotation updated_fp32(std::int64_t rows, std::int64_t cols);
  /// fp32 zeros, one copy for all calls: statistics, scratch.
  Matrix scratch(std::int64_t elements);
  /// Token ids below `limit`, in random order.
  Matrix tokens(std::int64_t count, std::int64_t limit);

 private:
  Matrix fresh(Pool& small, Pool& large, std::int64_t rows, std::int64_t cols, DType type);
  Rotation rotate(Pool& pool, std::int64_t rows, std::int64_t cols, DType type, std::int64_t copies);
  Rotation activation(Pool& small, Pool& large, std::int64_t rows, std::int64_t cols, DType type);

  PoolSizes sizes_;
  DType storage_ = DType::fp32;
  std::int64_t copies_ = 1;
  Pool inputs_;
  Pool state_;
  Pool outputs_;
  Pool small_inputs_;
  Pool small_outputs_;
};

}  // namespace plumbline::calibration
