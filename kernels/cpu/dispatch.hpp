// The step from a run-time element type to a compile-time one.
#pragma once

#include "core/tensor/matrix.hpp"
#include "kernels/cpu/simd.hpp"

namespace plumbline::cpu {

/// Throws Error: the CPU has no operators in this type.
[[noreturn]] void throw_unsupported(const char* op, DType type);

/// f(float{}), f(Bf16{}) or f(Fp16{}); Error for a type the CPU has no operators in.
template <class F>
void with_type(const char* op, DType type, F&& f) {
  switch (type) {
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::fp16:
      return f(Fp16{});
    default:
      throw_unsupported(op, type);
  }
}
/// The same with two types.
template <class F>
void with_types(const char* op, DType one, DType other, F&& f) {
  with_type(op, one, [&](auto a) { with_type(op, other, [&](auto b) { f(a, b); }); });
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
