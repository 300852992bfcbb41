// A view of a row-major matrix somewhere in a rank's memory (host or device). It owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/dtype.hpp"

namespace plumbline {

/// rows × cols elements; row i starts `stride` elements after row i-1. A vector is one row.
struct Matrix {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  DType dtype = DType::fp32;

  Matrix() = default;
  Matrix(void* data_, std::int64_t rows_, std::int64_t cols_, DType dtype_)
      : data(data_), rows(rows_), cols(cols_), stride(cols_), dtype(dtype_) {}
  Matrix(void* data_, std::int64_t rows_, std::int64_t cols_, std::int64_t stride_, DType dtype_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_), dtype(dtype_) {}

  std::int64_t elements() const { return rows * cols; }
  Bytes bytes() const { return {elements() * size_of(dtype)}; }
  bool contiguous() const { return stride == cols || rows == 1; }
  bool empty() const { return elements() == 0; }

  /// Columns [first, first + count) of every row.
  Matrix columns(std::int64_t first, std::int64_t count) const {
    return {at(0, first), rows, count, stride, dtype};
  }
  /// Rows [first, first + count).
  Matrix row_range(std::int64_t first, std::int64_t count) const {
    return {at(first, 0), count, cols, stride, dtype};
  }
  /// The same contiguous memory in another shape with equally many elements.
  Matrix reshaped(std::int64_t new_rows, std::int64_t new_cols) const {
    return {data, new_rows, new_cols, dtype};
  }

  void* at(std::int64_t row, std::int64_t col) const {
    return static_cast<std::byte*>(data) + (row * stride + col) * size_of(dtype);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace plumbline
