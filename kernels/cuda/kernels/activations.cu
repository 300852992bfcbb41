// Activations. Floors, in elements per element of y or x: with a gate 3 forward, 5 backward; without 2
// forward, 3 backward.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr float kRootHalf = 0.70710678118654752F;
constexpr float kNormal = 0.39894228040143268F;  // 1 ÷ sqrt(2π)

__device__ inline float pointwise_value(Pointwise function, float x) {
  if (function == Pointwise::gelu_erf) return x * 0.5F * erfcf(-kRootHalf * x);
  // Not fmaxf, which makes 0 of a NaN.
  const float positive = x < 0.0F ? 0.0F : x;
  return function == Pointwise::relu ? positive : positive * positive;
}
__device__ inline float pointwise_gradient(Pointwise function, float dy, float x) {
  if (function == Pointwise::gelu_erf) {
    return dy * (0.5F * erfcf(-kRootHalf * x) + x * kNormal * expf(-0.5F * x * x));
  }
  if (function == Pointwise::relu) return x > 0.0F ? dy : 0.0F;
  return x < 0.0F ? 0.0F : 2.0F * dy * x;
}

struct Swiglu {
  __device__ static float value(float gate, float up) { return swiglu(gate, up); }
  __device__ static float gate_gradient(float dy, float gate, float up) {
    return swiglu_gate_gradient(dy, gate, up);
  }
  __device__ static float up_gradient(float dy, float gate) { return swiglu_up_gradient(dy, gate); }
};
struct Geglu {
  __device__ static float value(float gate, float up) { return geglu(gate, up); }
  __device__ static float gate_gradient(float dy, float gate, float up) {
    return geglu_gate_gradient(dy, gate, up);
  }
  __device__ static float up_gradient(float dy, float gate) { return geglu_up_gradient(dy, gate); }
};

template <class T, class Gate>
struct GatedBody {
  View<const T> gate_up;
  std::int64_t up_offset;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gate[kChunk];
    float up[kChunk];
    load(gate_up.row(row) + col, part, gate);
    load(gate_up.row(row) + up_offset + col, part, up);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) gate[i] = Gate::value(gate[i], up[i]);
    store(y.row(row) + col, part, gate);
  }
};

template <class T, class Gate>
struct GatedGradientBody {
  View<const T> dy, gate_up;
  std::int64_t up_offset;
  View<T> dgate_up;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gradient[kChunk];
    float gate[kChunk];
    float up[kChunk];
    load(dy.row(row) + col, part, gradient);
    load(gate_up.row(row) + col, part, gate);
    load(gate_up.row(row) + up_offset + col, part, up);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float dup = Gate::up_gradient(gradient[i], gate[i]);
      gate[i] = Gate::gate_gradient(gradient[i], gate[i], up[i]);
      up[i] = dup;
    }
    store(dgate_up.row(row) + col, part, gate);
    store(dgate_up.row(row) + up_offset + col, part, up);
  }
};

template <class T>
struct GeluBody {
  View<const T> x;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = gelu(values[i]);
    store(y.row(row) + col, part, values);
  }
};

template <class T>
struct GeluGradientBody {
  View<const T> dy, x;
  View<T> dx;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gradient[kChunk];
    float values[kChunk];
    load(dy.row(row) + col, part, gradient);
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) gradient[i] = gelu_gradient(gradient[i], values[i]);
    store(dx.row(row) + col, part, gradient);
  }
};

template <class T>
struct PointwiseBody {
  Pointwise function;
  View<const T> x;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = pointwise_value(function, values[i]);
    store(y.row(row) + col, part, values);
  }
};

template <class T>
struct PointwiseGradientBody {
  Pointwise function;
  View<const T> dy, x;
  View<T> dx;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gradient[kChunk];
    float values[kChunk];
    load(dy.row(row) + col, part, gradient);
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) gradient[i] = pointwise_gradient(function, gradient[i], values[i]);
    store(dx.row(row) + col, part, gradient);
  }
};

template <class Gate>
void gated_forward(const Queue& queue, Matrix gate_up, Matrix y) {
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, pieces_aligned(gate_up, y.cols) && rows_aligned(y),
                GatedBody<T, Gate>{View<const T>(gate_up), y.cols, View<T>(y)});
  });
}

template <class Gate>
void gated_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up) {
  const bool aligned = pieces_aligned(gate_up, dy.cols) && all_aligned(dy, dgate_up);
  with_element(dy.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(
        queue, dy.rows, dy.cols, aligned,
        GatedGradientBody<T, Gate>{View<const T>(dy), View<const T>(gate_up), dy.cols, View<T>(dgate_up)});
  });
}

}  // namespace

void swiglu_forward(const Queue& queue, Matrix gate_up, Matrix y) {
  gated_forward<Swiglu>(queue, gate_up, y);
}
void swiglu_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up) {
  gated_backward<Swiglu>(queue, dy, gate_up, dgate_up);
}
void geglu_forward(const Queue& queue, Matrix gate_up, Matrix y) {
  gated_forward<Geglu>(queue, gate_up, y);
}
void geglu_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up) {
  gated_backward<Geglu>(queue, dy, gate_up, dgate_up);
}

void pointwise_forward(const Queue& queue, Pointwise function, Matrix x, Matrix y) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(x, y),
                PointwiseBody<T>{function, View<const T>(x), View<T>(y)});
  });
}

void pointwise_backward(const Queue& queue, Pointwise function, Matrix dy, Matrix x, Matrix dx) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(dy, x, dx),
                PointwiseGradientBody<T>{function, View<const T>(dy), View<const T>(x), View<T>(dx)});
  });
}

void gelu_forward(const Queue& queue, Matrix x, Matrix y) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(x, y), GeluBody<T>{View<const T>(x), View<T>(y)});
  });
}

void gelu_backward(const Queue& queue, Matrix dy, Matrix x, Matrix dx) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(dy, x, dx),
                GeluGradientBody<T>{View<const T>(dy), View<const T>(x), View<T>(dx)});
  });
}

}  // namespace plumbline::cuda
