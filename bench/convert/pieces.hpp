// A tensor that is to be written, as pieces of those that a checkpoint holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/convert/checkpoint.hpp"

namespace plumbline::convert {

/// A rectangle of the tensor, as it is stored, and the source of its elements.
struct Piece {
  const std::byte* from = nullptr;  // its first element
  std::int64_t row_stride = 0;      // in elements of the source
  std::int64_t col_stride = 1;
  std::int64_t at_row = 0;
  std::int64_t at_col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  /// The FP8 matrix that it is of, whose values become bf16, and the index of its first element there.
  const StoredTensor* dequantized = nullptr;
  std::int64_t first = 0;
};

struct PlannedTensor {
  std::string name;
  StoredType type = StoredType::fp32;
  std::vector<std::int64_t> shape;
  std::int64_t rows = 0;  // as stored; a vector is one column
  std::int64_t cols = 0;
  std::vector<Piece> pieces;                        // by rows
  std::vector<std::span<const std::byte>> sources;  // the whole tensors that the pieces are of

  std::int64_t bytes() const { return rows * cols * size_of(type); }
};

/// Throws InputError when its elements are of several types, Error when the checkpoint lacks some.
PlannedTensor plan_tensor(const TensorLayout& wanted, const Checkpoint& source);

/// Its bytes in order, some megabytes at a time; `sink` may be given a part of the mapped source. Pages of
/// the source are returned to the system after reading.
void stream_tensor(const PlannedTensor& tensor, const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace plumbline::convert
