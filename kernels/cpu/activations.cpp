// SwiGLU, GeGLU, GELU, ReLU.
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

// 0.5·(1 + tanh(u)) = sigmoid(2u), so GELU is x·sigmoid(kGelu·(x + kCube·x³)) with kGelu = 2·sqrt(2/π).
constexpr float kGelu = 1.5957691216057308F;
constexpr float kCube = 0.044715F;
constexpr float kRootHalf = 0.70710678118654752F;
constexpr float kNormal = 0.39894228040143268F;  // 1 ÷ sqrt(2π)

/// The functions of the form x·sigmoid(argument(x)).
struct Silu {
  PLUMBLINE_INLINE static Lanes argument(Lanes x) { return x; }
  PLUMBLINE_INLINE static Lanes slope(Lanes /*x*/) { return splat(1.0F); }
};
struct TanhGelu {
  PLUMBLINE_INLINE static Lanes argument(Lanes x) { return kGelu * (x + kCube * x * x * x); }
  PLUMBLINE_INLINE static Lanes slope(Lanes x) { return kGelu * (1.0F + 3.0F * kCube * x * x); }
};

template <class T, class Gate>
PLUMBLINE_MULTIVERSION void gated(Matrix gate_up, Matrix y) {
  for (std::int64_t t = 0; t < y.rows; ++t) {
    const T* gate = row_of<T>(gate_up, t);
    const T* up = gate + y.cols;
    T* out = row_of<T>(y, t);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      const Lanes g = load(gate + i, part);
      store(out + i, g * sigmoid(Gate::argument(g)) * load(up + i, part), part);
    });
  }
}

template <class T, class Gate>
PLUMBLINE_MULTIVERSION void gated_gradient(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    const T* gradient = row_of<T>(dy, t);
    const T* gate = row_of<T>(gate_up, t);
    const T* up = gate + dy.cols;
    T* dgate = row_of<T>(dgate_up, t);
    T* dup = dgate + dy.cols;
    for_lanes(dy.cols, [&] PLUMBLINE_LANES {
      const Lanes d = load(gradient + i, part);
      const Lanes g = load(gate + i, part);
      const Lanes u = load(up + i, part);
      const Lanes s = sigmoid(Gate::argument(g));
      store(dgate + i, d * u * s * (1.0F + g * (1.0F - s) * Gate::slope(g)), part);
      store(dup + i, d * g * s, part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void gelu(Matrix x, Matrix y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(y, t);
    for_lanes(x.cols, [&] PLUMBLINE_LANES {
      const Lanes v = load(in + i, part);
      store(out + i, v * sigmoid(TanhGelu::argument(v)), part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void gelu_gradient(Matrix dy, Matrix x, Matrix dx) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* gradient = row_of<T>(dy, t);
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(dx, t);
    for_lanes(x.cols, [&] PLUMBLINE_LANES {
      const Lanes v = load(in + i, part);
      const Lanes s = sigmoid(TanhGelu::argument(v));
      store(out + i, load(gradient + i, part) * (s + v * s * (1.0F - s) * TanhGelu::slope(v)), part);
    });
  }
}

/// One value at a time: the C library's function, which has no lanes.
PLUMBLINE_INLINE Lanes half_erfc_of_minus(Lanes x) {
  Lanes result;
  for (int i = 0; i < kLanes; ++i) result[i] = 0.5F * std::erfc(x[i] * -kRootHalf);
  return result;
}

PLUMBLINE_INLINE Lanes positive_part(Lanes x) {
  return (Lanes)((LaneBits)x & ~(sign_mask((LaneBits)x) & ~nan_mask(x)));
}

/// y and its derivative.
struct ErfGelu {
  PLUMBLINE_INLINE static Lanes value(Lanes x) { return x * half_erfc_of_minus(x); }
  PLUMBLINE_INLINE static Lanes slope(Lanes x) {
    return half_erfc_of_minus(x) + x * kNormal * exp(-0.5F * x * x);
  }
};
struct Relu {
  PLUMBLINE_INLINE static Lanes value(Lanes x) { return positive_part(x); }
  PLUMBLINE_INLINE static Lanes slope(Lanes x) {
    return (Lanes)((LaneBits)splat(1.0F) & sign_mask((LaneBits)(0.0F - x)));
  }
};
struct SquaredRelu {
  PLUMBLINE_INLINE static Lanes value(Lanes x) { return positive_part(x) * positive_part(x); }
  PLUMBLINE_INLINE static Lanes slope(Lanes x) { return 2.0F * positive_part(x); }
};

template <class T, class Function>
PLUMBLINE_MULTIVERSION void each_value(Matrix x, Matrix y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(y, t);
    for_lanes(x.cols, [&] PLUMBLINE_LANES { store(out + i, Function::value(load(in + i, part)), part); });
  }
}

template <class T, class Function>
PLUMBLINE_MULTIVERSION void each_slope(Matrix dy, Matrix x, Matrix dx) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* gradient = row_of<T>(dy, t);
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(dx, t);
    for_lanes(x.cols, [&] PLUMBLINE_LANES {
      store(out + i, load(gradient + i, part) * Function::slope(load(in + i, part)), part);
    });
  }
}

/// f with the functor of the function.
template <class F>
void with_pointwise(Pointwise function, F&& f) {
  switch (function) {
    case Pointwise::gelu_erf:
      return f(ErfGelu());
    case Pointwise::relu:
      return f(Relu());
    case Pointwise::squared_relu:
      return f(SquaredRelu());
  }
}

}  // namespace

void CpuOperators::pointwise_forward(Pointwise function, Matrix x, Matrix y) {
  with_type("pointwise_forward", x.dtype, [&](auto type) {
    with_pointwise(function, [&](auto of) { each_value<decltype(type), decltype(of)>(x, y); });
  });
}

void CpuOperators::pointwise_backward(Pointwise function, Matrix dy, Matrix x, Matrix dx) {
  with_type("pointwise_backward", x.dtype, [&](auto type) {
    with_pointwise(function, [&](auto of) { each_slope<decltype(type), decltype(of)>(dy, x, dx); });
  });
}

void CpuOperators::geglu_forward(Matrix gate_up, Matrix y) {
  with_type("geglu_forward", y.dtype, [&](auto type) { gated<decltype(type), TanhGelu>(gate_up, y); });
}

void CpuOperators::geglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  with_type("geglu_backward", dy.dtype,
            [&](auto type) { gated_gradient<decltype(type), TanhGelu>(dy, gate_up, dgate_up); });
}

void CpuOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  with_type("swiglu_forward", y.dtype, [&](auto type) { gated<decltype(type), Silu>(gate_up, y); });
}

void CpuOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  with_type("swiglu_backward", dy.dtype,
            [&](auto type) { gated_gradient<decltype(type), Silu>(dy, gate_up, dgate_up); });
}

void CpuOperators::gelu_forward(Matrix x, Matrix y) {
  with_type("gelu_forward", x.dtype, [&](auto type) { gelu<decltype(type)>(x, y); });
}

void CpuOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  with_type("gelu_backward", x.dtype, [&](auto type) { gelu_gradient<decltype(type)>(dy, x, dx); });
}

}  // namespace plumbline::cpu
