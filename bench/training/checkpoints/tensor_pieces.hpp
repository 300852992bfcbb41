// Rectangles of the model's whole tensors in a stretch of a rank's memory. Checkpoints store and find values
// by these, so that any split reads the checkpoints of any other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/training/parameters/parameters.hpp"

namespace plumbline::training {

/// Rows and columns count in (out, in) orientation, as in Slice; a vector is one row.
struct TensorPiece {
  std::string tensor;
  std::int64_t tensor_rows = 0;
  std::int64_t tensor_cols = 0;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t offset = 0;  // of its first element in the stretch
  std::int64_t stride = 0;  // between its rows there

  std::int64_t elements() const { return rows * cols; }
};

/// Elements [from, end) of the memory that holds the parameter (its unit, or its stage's vectors). A slice
/// that begins or ends within a row falls into up to three pieces. `offset` counts from `from`.
std::vector<TensorPiece> pieces_of_stretch(const Parameter& parameter, std::int64_t from, std::int64_t end);

}  // namespace plumbline::training
