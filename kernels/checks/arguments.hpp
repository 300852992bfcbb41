// Conditions on an operator's arguments, and the errors that name them.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/operators.hpp"

namespace plumbline {

/// An argument as an error message shows it.
struct Named {
  const char* name;
  const Matrix& matrix;
};

/// Throws Error: "<op>: shapes or types disagree: a 2x3 fp32, b 3x4 bf16; expected <expected>".
[[noreturn]] void throw_disagreement(const char* op, const char* expected,
                                     std::initializer_list<Named> arguments);

inline void require(bool agrees, const char* op, const char* expected,
                    std::initializer_list<Named> arguments) {
  if (!agrees) throw_disagreement(op, expected, arguments);
}

/// Elements can be dropped with it: not with 1, which 1/(1 − p) could not make up for, nor with NaN. Throws
/// Error: "<op>: dropout probability 1.5; expected 0 <= p < 1".
void require_probability(const char* op, double probability);

/// Attention's scratch, whose size depends on the backend: `wanted` elements at least.
inline void require_scratch(const char* op, const Matrix& scratch, std::int64_t wanted) {
  require(scratch.elements() >= wanted, op, "scratch of at least attention_scratch elements",
          {{"scratch", scratch}});
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
inline bool absent_or_alike(const Matrix& x, const Matrix& y) {
  return x.data == nullptr || alike(x, y);
}
/// One value of `type` for each row of `of`: (1, of.rows).
inline bool is_row(const Matrix& x, const Matrix& of, DType type) {
  return has_shape(x, 1, of.rows, type);
}
/// One value of its type for each column of `of`.
inline bool is_parameter(const Matrix& w, const Matrix& of) {
  return has_shape(w, 1, of.cols, of.dtype);
}
inline bool absent_or_parameter(const Matrix& w, const Matrix& of) {
  return w.data == nullptr || is_parameter(w, of);
}
/// True for a storage type: not ids, not masks, not quantized.
inline bool is_storage(const Matrix& x) {
  return x.dtype == DType::fp32 || x.dtype == DType::bf16 || x.dtype == DType::fp16;
}
inline bool is_number(const Matrix& x) {
  return has_shape(x, 1, 1, DType::fp32) && x.data != nullptr;
}
/// The gradient of a vector of `count` elements: floating point, of any type.
inline bool is_gradient(const Matrix& x, std::int64_t count) {
  return is_storage(x) && has_shape(x, 1, count);
}
/// A matrix of which the first `valid` columns are logits.
inline bool is_logits(const Matrix& x, std::int64_t valid) {
  return is_storage(x) && valid >= 0 && valid <= x.cols;
}

}  // namespace plumbline
