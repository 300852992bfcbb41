// Expert rows weighed and added up, and the sigmoid of a shared expert's gate. Floors, in elements per
// element: scale_rows 2, sigmoid 2 forward and 3 backward, combine_rows k + 1 per element of y, one more if
// it accumulates.
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

template <class T>
struct SigmoidBody {
  View<const T> x;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = sigmoid(values[i]);
    store(y.row(row) + col, part, values);
  }
};

template <class T>
struct SigmoidGradientBody {
  View<const T> dy, y;
  View<T> dx;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float gradient[kChunk];
    float values[kChunk];
    load(dy.row(row) + col, part, gradient);
    load(y.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) gradient[i] *= values[i] * (1.0F - values[i]);
    store(dx.row(row) + col, part, gradient);
  }
};

template <class T>
struct ScaleRowsBody {
  View<const T> x;
  const float* factors;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(x.row(row) + col, part, values);
    const float factor = factors[row];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] *= factor;
    store(y.row(row) + col, part, values);
  }
};

template <class T, class Y>
struct CombineBody {
  View<const T> x;
  const std::int32_t* places;
  int count;  // of a token
  bool accumulate;
  View<Y> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float sum[kChunk] = {};
    if (accumulate) load(y.row(row) + col, part, sum);
    const std::int32_t* mine = places + static_cast<std::int64_t>(row) * count;
    for (int j = 0; j < count; ++j) {
      if (mine[j] < 0) continue;
      float values[kChunk];
      load(x.row(mine[j]) + col, part, values);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += values[i];
    }
    store(y.row(row) + col, part, sum);
  }
};

}  // namespace

void sigmoid_forward(const Queue& queue, Matrix x, Matrix y) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(x, y), SigmoidBody<T>{View<const T>(x), View<T>(y)});
  });
}

void sigmoid_backward(const Queue& queue, Matrix dy, Matrix y, Matrix dx) {
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, all_aligned(dy, y, dx),
                SigmoidGradientBody<T>{View<const T>(dy), View<const T>(y), View<T>(dx)});
  });
}

void scale_rows(const Queue& queue, Matrix x, Matrix factors, Matrix y) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(x, y),
                ScaleRowsBody<T>{View<const T>(x), factors.as<const float>(), View<T>(y)});
  });
}

void combine_rows(const Queue& queue, Matrix x, Matrix places, bool accumulate, Matrix y) {
  const auto add_up = [&](auto type, auto sum) {
    using T = decltype(type);
    using Y = decltype(sum);
    over_chunks(queue, y.rows, y.cols, all_aligned(x, y),
                CombineBody<T, Y>{View<const T>(x), places.as<const std::int32_t>(),
                                  static_cast<int>(places.cols / y.rows), accumulate, View<Y>(y)});
  };
  with_element(x.dtype, [&](auto type) {
    if (y.dtype == DType::fp32) return add_up(type, float{});
    add_up(type, type);
  });
}

}  // namespace plumbline::cuda
