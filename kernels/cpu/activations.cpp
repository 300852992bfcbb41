// SwiGLU and GELU.
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

// 0.5·(1 + tanh(u)) = sigmoid(2u), so GELU is x·sigmoid(kGelu·(x + kCube·x³)) with kGelu = 2·sqrt(2/π).
constexpr float kGelu = 1.5957691216057308F;
constexpr float kCube = 0.044715F;

template <class T>
PLUMBLINE_MULTIVERSION void swiglu(Matrix gate_up, Matrix y) {
  for (std::int64_t t = 0; t < y.rows; ++t) {
    const T* gate = row_of<T>(gate_up, t);
    const T* up = gate + y.cols;
    T* out = row_of<T>(y, t);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      const Lanes g = load(gate + i, part);
      store(out + i, g * sigmoid(g) * load(up + i, part), part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void swiglu_gradient(Matrix dy, Matrix gate_up, Matrix dgate_up) {
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
      const Lanes s = sigmoid(g);
      store(dgate + i, d * u * s * (1.0F + g * (1.0F - s)), part);
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
      store(out + i, v * sigmoid(kGelu * (v + kCube * v * v * v)), part);
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
      const Lanes s = sigmoid(kGelu * (v + kCube * v * v * v));
      const Lanes slope = kGelu * (1.0F + 3.0F * kCube * v * v);
      store(out + i, load(gradient + i, part) * (s + v * s * (1.0F - s) * slope), part);
    });
  }
}

}  // namespace

void CpuOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  require(has_shape(gate_up, y.rows, 2 * y.cols, y.dtype), "swiglu_forward",
          "gate_up (T,2F), y (T,F) of one type", {{"gate_up", gate_up}, {"y", y}});
  with_type("swiglu_forward", y.dtype, [&](auto type) { swiglu<decltype(type)>(gate_up, y); });
}

void CpuOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  require(has_shape(gate_up, dy.rows, 2 * dy.cols, dy.dtype) && alike(gate_up, dgate_up), "swiglu_backward",
          "dy (T,F), gate_up, dgate_up (T,2F) of one type",
          {{"dy", dy}, {"gate_up", gate_up}, {"dgate_up", dgate_up}});
  with_type("swiglu_backward", dy.dtype,
            [&](auto type) { swiglu_gradient<decltype(type)>(dy, gate_up, dgate_up); });
}

void CpuOperators::gelu_forward(Matrix x, Matrix y) {
  require(alike(x, y), "gelu_forward", "x, y (T,F) of one type", {{"x", x}, {"y", y}});
  with_type("gelu_forward", x.dtype, [&](auto type) { gelu<decltype(type)>(x, y); });
}

void CpuOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  require(alike(x, dy) && alike(x, dx), "gelu_backward", "dy, x, dx (T,F) of one type",
          {{"dy", dy}, {"x", x}, {"dx", dx}});
  with_type("gelu_backward", x.dtype, [&](auto type) { gelu_gradient<decltype(type)>(dy, x, dx); });
}

}  // namespace plumbline::cpu
