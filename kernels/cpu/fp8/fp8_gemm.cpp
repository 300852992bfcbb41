// Products of FP8 operands: both types are exact in bf16, whose products oneDNN has.
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fp8/fp8_floats.hpp"

namespace plumbline::cpu {
namespace {

PLUMBLINE_INLINE void put(float value, float* to) {
  *to = value;
}
PLUMBLINE_INLINE void put(float value, Bf16* to) {
  to->bits = to_bf16(value);
}
PLUMBLINE_INLINE void put(float value, Fp16* to) {
  to->bits = to_fp16(value);
}

template <class F, class T>
PLUMBLINE_MULTIVERSION void widen(Matrix x, Matrix wide) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const F* __restrict in = row_of<F>(x, row);
    T* __restrict out = row_of<T>(wide, row);
    for (std::int64_t i = 0; i < x.cols; ++i) put(to_float(in[i]), out + i);
  }
}

/// c = product·a_scale·b_scale [+ c] [+ bias]. One scale after the other: their product may be too small
/// for fp32 where the result is not.
template <class T, class Bias>
PLUMBLINE_MULTIVERSION void finish(Matrix product, float a_scale, float b_scale, bool accumulate,
                                   const Bias* bias, Matrix c) {
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const float* in = row_of<float>(product, row);
    T* out = row_of<T>(c, row);
    for_lanes(c.cols, [&] PLUMBLINE_LANES {
      Lanes value = load(in + i, part) * a_scale * b_scale;
      if (accumulate) value += load(out + i, part);
      if (bias != nullptr) value += load(bias + i, part);
      store(out + i, value, part);
    });
  }
}

}  // namespace

void CpuOperators::fp8_gemm(const Gemm& gemm) {
  const DType type = matmul_.has_bf16() ? DType::bf16 : DType::fp32;
  const auto widened = [&](std::size_t slot, const Matrix& x) {
    const Matrix wide = buffer(slot, x.rows, x.cols, type);
    const Matrix from = x.contiguous() ? flattened(x) : x;
    const Matrix to = x.contiguous() ? flattened(wide) : wide;
    with_fp8_type(x.dtype, [&](auto fp8_type) {
      with_type("gemm", type,
                [&](auto wide_type) { widen<decltype(fp8_type), decltype(wide_type)>(from, to); });
    });
    return wide;
  };
  const Matrix a = widened(0, gemm.a);
  const Matrix b = widened(1, gemm.b);
  const Matrix product = buffer(2, gemm.c.rows, gemm.c.cols, DType::fp32);
  multiply_matrices({.a = a, .b = b, .c = product, .b_transposed = true});
  with_type("gemm", gemm.c.dtype, [&](auto c_type) {
    with_type("gemm", gemm.bias.data == nullptr ? gemm.c.dtype : gemm.bias.dtype, [&](auto bias_type) {
      finish<decltype(c_type), decltype(bias_type)>(product, *gemm.a_inverse_scale.as<float>(),
                                                    *gemm.b_inverse_scale.as<float>(), gemm.accumulate,
                                                    gemm.bias.as<decltype(bias_type)>(), gemm.c);
    });
  });
}

}  // namespace plumbline::cpu
