// Shape checks of the emulated operators: checks that do not read the contents.
#pragma once

#include <initializer_list>
#include <string_view>

#include "kernels/checks.hpp"

namespace plumbline::emulated {

/// Throws Error with the operator's name and its arguments' shapes, in the order of the operator list.
[[noreturn]] void throw_disagreement(std::string_view name, std::initializer_list<Matrix> arguments);

inline void require(bool agrees, std::string_view name, std::initializer_list<Matrix> arguments) {
  if (!agrees) throw_disagreement(name, arguments);
}

inline bool statistics(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  return has_shape(x, rows, cols, DType::fp32);
}
/// One number for every column of `x`.
inline bool vector_of(const Matrix& w, const Matrix& x) {
  return has_shape(w, 1, x.cols);
}
inline bool absent_or(const Matrix& x, bool good) {
  return x.data == nullptr || good;
}

}  // namespace plumbline::emulated
