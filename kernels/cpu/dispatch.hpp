// The step from a run-time element type to a compile-time one.
#pragma once

#include "core/tensor/matrix.hpp"
#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// Throws Error: the CPU has no operators in this type.
[[noreturn]] void throw_unsupported(const char* op, DType type);

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
