#include "bench/training/checkpoints/tensor_pieces.hpp"

#include <algorithm>

namespace plumbline::training {
namespace {

/// Rows [row, row + rows) of the slice, of each the columns [col, col + cols); `at` is its first element.
TensorPiece piece_of(const Slice& slice, std::int64_t row, std::int64_t col, std::int64_t rows,
                     std::int64_t cols, std::int64_t at, std::int64_t stride) {
  return {
      slice.tensor, slice.tensor_rows, slice.tensor_cols, slice.row + row, slice.col + col, rows, cols, at,
      stride};
}

void append_slice(std::vector<TensorPiece>& pieces, const Parameter& parameter, const Slice& slice,
                  std::int64_t from, std::int64_t end) {
  if (slice.rows == 0 || slice.cols == 0) return;
  const std::int64_t stride = parameter.cols;
  const std::int64_t first = parameter.offset + slice.local_row * stride + slice.local_col;
  const auto begin_of = [&](std::int64_t row) { return first + row * stride; };
  // The rows that the stretch touches.
  const std::int64_t top = from < begin_of(0) + slice.cols ? 0 : (from - first - slice.cols) / stride + 1;
  const std::int64_t bottom = end <= first ? 0 : std::min(slice.rows, (end - first - 1) / stride + 1);
  std::int64_t row = top;
  while (row < bottom) {
    const std::int64_t left = std::max<std::int64_t>(from - begin_of(row), 0);
    const std::int64_t right = std::min(end - begin_of(row), slice.cols);
    std::int64_t rows = 1;
    if (left == 0 && right == slice.cols) {
      // All rows below that are whole as well.
      rows = std::clamp<std::int64_t>((end - begin_of(row) - slice.cols) / stride + 1, 1, bottom - row);
    }
    if (right > left) {
      pieces.push_back(piece_of(slice, row, left, rows, right - left, begin_of(row) + left - from, stride));
    }
    row += rows;
  }
}

}  // namespace

std::vector<TensorPiece> pieces_of_stretch(const Parameter& parameter, std::int64_t from, std::int64_t end) {
  std::vector<TensorPiece> pieces;
  pieces.reserve(3 * parameter.slices.size());
  for (const Slice& slice : parameter.slices) append_slice(pieces, parameter, slice, from, end);
  return pieces;
}

}  // namespace plumbline::training
