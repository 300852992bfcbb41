// SwiGLU, GELU and rotary embedding. Floors, in elements per element of y or x: swiglu 3 forward, 5 backward;
// gelu 2 forward, 3 backward; rope 2.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

template <class T>
struct SwigluBody {
  View<const T> gate_up;
  std::int64_t up_offset;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gate[kChunk];
    float up[kChunk];
    load(gate_up.row(row) + col, part, gate);
    load(gate_up.row(row) + up_offset + col, part, up);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) gate[i] = swiglu(gate[i], up[i]);
    store(y.row(row) + col, part, gate);
  }
};

template <class T>
struct SwigluGradientBody {
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
      const float dup = swiglu_up_gradient(gradient[i], gate[i]);
      gate[i] = swiglu_gate_gradient(gradient[i], gate[i], up[i]);
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

/// A row here is one head of one token, a column one pair (x1, x2).
template <class T>
struct RopeBody {
  View<T> x;
  FastDivide heads, seq;
  std::int64_t half;
  const float *cos, *sin;
  std::int64_t cos_stride, sin_stride;
  float direction;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    const unsigned token = heads.quotient(row);
    const std::int64_t head = row - token * heads.divisor();
    const std::int64_t position = seq.remainder(token);
    T* first = x.row(token) + head * 2 * half + col;
    float x1[kChunk];
    float x2[kChunk];
    float c[kChunk];
    float s[kChunk];
    load(first, part, x1);
    load(first + half, part, x2);
    load(cos + position * cos_stride + col, part, c);
    load(sin + position * sin_stride + col, part, s);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float sine = s[i] * direction;
      const float rotated = x1[i] * c[i] - x2[i] * sine;
      x2[i] = x2[i] * c[i] + x1[i] * sine;
      x1[i] = rotated;
    }
    store(first, part, x1);
    store(first + half, part, x2);
  }
};

/// Whether rows of `x` stay aligned when split into pieces of `cols` columns.
bool pieces_aligned(const Matrix& x, std::int64_t cols) {
  return rows_aligned(x) && cols * size_of(x.dtype) % 16 == 0;
}

}  // namespace

void swiglu_forward(const Queue& queue, Matrix gate_up, Matrix y) {
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, pieces_aligned(gate_up, y.cols) && rows_aligned(y),
                SwigluBody<T>{View<const T>(gate_up), y.cols, View<T>(y)});
  });
}

void swiglu_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up) {
  const bool aligned = pieces_aligned(gate_up, dy.cols) && all_aligned(dy, dgate_up);
  with_element(dy.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, dy.rows, dy.cols, aligned,
                SwigluGradientBody<T>{View<const T>(dy), View<const T>(gate_up), dy.cols, View<T>(dgate_up)});
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

void rope(const Queue& queue, Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) {
  const std::int64_t heads = x.cols / head_dim;
  if (x.empty()) return;
  const std::int64_t half = head_dim / 2;
  const bool aligned = pieces_aligned(x, half) && all_aligned(cos, sin);
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows * heads, half, aligned,
                RopeBody<T>{View<T>(x), FastDivide(static_cast<unsigned>(heads)),
                            FastDivide(static_cast<unsigned>(cos.rows)), half, cos.as<const float>(),
                            sin.as<const float>(), cos.stride, sin.stride, inverse ? -1.0F : 1.0F});
  });
}

}  // namespace plumbline::cuda
