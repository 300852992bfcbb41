// Sums, copies, fills and scaling. Floors: add moves 3 elements per element (bias once more per column),
// convert one of each type, scale two, fill one.
#include <cstring>
#include <type_traits>

#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

template <class T>
struct AddBody {
  View<const T> a, b;
  float factor;  // of b
  const T* bias;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float left[kChunk];
    float right[kChunk];
    load(a.row(row) + col, part, left);
    load(b.row(row) + col, part, right);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) left[i] += factor * right[i];
    if (bias != nullptr) {
      load(bias + col, part, right);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) left[i] += right[i];
    }
    store(y.row(row) + col, part, left);
  }
};

template <class T>
struct WeightedSumBody {
  View<const T> a, b;
  float of_a, of_b;
  View<T> y;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float left[kChunk];
    float right[kChunk];
    load(a.row(row) + col, part, left);
    load(b.row(row) + col, part, right);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) left[i] = of_a * left[i] + of_b * right[i];
    store(y.row(row) + col, part, left);
  }
};

template <class From, class To>
struct ConvertBody {
  View<const From> from;
  View<To> to;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(from.row(row) + col, part, values);
    store(to.row(row) + col, part, values);
  }
};

template <class T>
struct ScaleBody {
  View<T> x;
  float factor;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
    load(x.row(row) + col, part, values);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] *= factor;
    store(x.row(row) + col, part, values);
  }
};

template <class T>
struct FillBody {
  View<T> x;
  float value;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    float values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = value;
    store(x.row(row) + col, part, values);
  }
};

}  // namespace

void add(const Queue& queue, Matrix a, Matrix b, float factor, Matrix bias, Matrix y) {
  if (bias.data == nullptr && a.contiguous() && b.contiguous() && y.contiguous()) {
    a = flattened(a);
    b = flattened(b);
    y = flattened(y);
  }
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, all_aligned(a, b, bias, y),
                AddBody<T>{View<const T>(a), View<const T>(b), factor, bias.as<const T>(), View<T>(y)});
  });
}

void weighted_sum(const Queue& queue, Matrix a, float of_a, Matrix b, float of_b, Matrix y) {
  if (a.contiguous() && b.contiguous() && y.contiguous()) {
    a = flattened(a);
    b = flattened(b);
    y = flattened(y);
  }
  with_element(y.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, y.rows, y.cols, all_aligned(a, b, y),
                WeightedSumBody<T>{View<const T>(a), View<const T>(b), of_a, of_b, View<T>(y)});
  });
}

void convert(const Queue& queue, Matrix from, Matrix to) {
  if (from.contiguous() && to.contiguous()) {
    from = flattened(from);
    to = flattened(to);
  }
  with_element(from.dtype, [&](auto from_type) {
    with_element(to.dtype, [&](auto to_type) {
      using From = decltype(from_type);
      using To = decltype(to_type);
      if constexpr (!std::is_same_v<From, To>) {  // equal types are copied byte by byte
        over_chunks(queue, to.rows, to.cols, all_aligned(from, to),
                    ConvertBody<From, To>{View<const From>(from), View<To>(to)});
      }
    });
  });
}

void scale(const Queue& queue, Matrix x, float factor) {
  in_row_pieces(flattened(x), [&](const Matrix& piece) {
    with_element(piece.dtype, [&](auto type) {
      using T = decltype(type);
      over_chunks(queue, piece.rows, piece.cols, all_aligned(piece), ScaleBody<T>{View<T>(piece), factor});
    });
  });
}

void fill(const Queue& queue, Matrix x, double value) {
  x = flattened(x);
  auto number = static_cast<float>(value);
  if (x.dtype == DType::int32) {  // stored as the fp32 of the same bits, never computed with
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(&number, &integer, sizeof number);
    x.dtype = DType::fp32;
  }
  in_row_pieces(x, [&](const Matrix& piece) {
    with_element(piece.dtype, [&](auto type) {
      using T = decltype(type);
      over_chunks(queue, piece.rows, piece.cols, all_aligned(piece), FillBody<T>{View<T>(piece), number});
    });
  });
}

}  // namespace plumbline::cuda
