// Shape checks of the emulated operators: what can be known without looking at the contents.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/matrix.hpp"

namespace plumbline::emulated {

/// Throws Error with the operator's name and its arguments' shapes, in the order of the operator list.
[[noreturn]] void throw_disagreement(std::string_view name, std::initializer_list<Matrix> arguments);

inline void require(bool agrees, std::string_view name, std::initializer_list<Matrix> arguments) {
  if (!agrees) throw_disagreement(name, arguments);
}

inline bool shaped(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  return x.rows == rows && x.cols == cols;
}
inline bool alike(const Matrix& x, const Matrix& y) {
  return shaped(x, y.rows, y.cols) && x.dtype == y.dtype;
}
inline bool statistics(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  return shaped(x, rows, cols) && x.dtype == DType::fp32;
}
/// One number for every column of `x`.
inline bool vector_of(const Matrix& w, const Matrix& x) {
  return shaped(w, 1, x.cols);
}
inline bool absent_or(const Matrix& x, bool good) {
  return x.data == nullptr || good;
}

}  // namespace plumbline::emulated
