// Shape errors and the step from a run-time element type to a compile-time one.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/error.hpp"
#include "core/matrix.hpp"
#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// An argument as an error message shows it.
struct Named {
  const char* name;
  const Matrix& matrix;
};

/// Throws Error: "<op>: a 2x3 fp32, b 3x4 bf16; expected <expected>".
[[noreturn]] void throw_disagreement(const char* op, const char* expected,
                                     std::initializer_list<Named> arguments);
[[noreturn]] void throw_unsupported(const char* op, DType type);

/// Shapes and types of an operator's arguments, checked before anything is written.
inline void require(bool agrees, const char* op, const char* expected,
                    std::initializer_list<Named> arguments) {
  if (!agrees) throw_disagreement(op, expected, arguments);
}

inline bool has_shape(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  return x.rows == rows && x.cols == cols;
}
inline bool has_shape(const Matrix& x, std::int64_t rows, std::int64_t cols, DType type) {
  return has_shape(x, rows, cols) && x.dtype == type;
}
inline bool same_shape(const Matrix& x, const Matrix& y) {
  return has_shape(x, y.rows, y.cols);
}
inline bool alike(const Matrix& x, const Matrix& y) {
  return has_shape(x, y.rows, y.cols, y.dtype);
}

/// f(float{}) or f(Bf16{}); Error for a type the CPU has no operators in.
template <class F>
void with_type(const char* op, DType type, F&& f) {
  switch (type) {
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    default:
      throw_unsupported(op, type);
  }
}

template <class T>
PLUMBLINE_INLINE T* row_of(const Matrix& x, std::int64_t row) {
  return x.as<T>() + row * x.stride;
}

/// A matrix without gaps seen as one row: one long loop instead of many short ones.
inline Matrix flattened(const Matrix& x) {
  return x.contiguous() ? x.reshaped(1, x.elements()) : x;
}

}  // namespace plumbline::cpu
