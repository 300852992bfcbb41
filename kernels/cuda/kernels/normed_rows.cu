// Operators of an output layer with normalised rows besides its products: a block for every row. Floors:
// row_products reads both matrices once, remove_row_parts reads both and writes one, scale_columns reads and
// writes x.
#include <algorithm>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kRowThreads = 256;

/// The part of a row of a (rows, columns) matrix that is among its elements [first, first + n), counted from
/// `first`.
struct RowPart {
  std::int64_t begin, end;
  __device__ RowPart(std::int64_t row, std::int64_t first, std::int64_t n, std::int64_t columns)
      : begin(row * columns - first), end(begin + columns) {
    if (begin < 0) begin = 0;
    if (end > n) end = n;
  }
};

template <class A, class B>
__global__ void __launch_bounds__(kRowThreads)
    row_products_kernel(const A* a, const B* b, std::int64_t n, std::int64_t first, std::int64_t columns,
                        View<float> sums) {
  const RowPart part(block_x(), first, n, columns);
  Two own{0, 0};
  for (std::int64_t i = part.begin + thread_x(); i < part.end; i += kRowThreads) {
    const float right = to_float(b[i]);
    own.a += to_float(a[i]) * right;
    own.b += right * right;
  }
  const Two whole = block_reduce(own, Sum());
  if (thread_x() > 0) return;
  sums.row(0)[block_x()] = whole.a;
  sums.row(1)[block_x()] = whole.b;
}

template <class G, class W>
__global__ void __launch_bounds__(kRowThreads)
    remove_row_parts_kernel(G* g, const W* w, std::int64_t n, std::int64_t first, std::int64_t columns,
                            View<const float> sums) {
  const RowPart part(block_x(), first, n, columns);
  const float squares = sums.row(1)[block_x()];
  const float share = squares == 0 ? 0.0F : sums.row(0)[block_x()] / squares;
  for (std::int64_t i = part.begin + thread_x(); i < part.end; i += kRowThreads)
    g[i] = from_float<G>(to_float(g[i]) - to_float(w[i]) * share);
}

template <class T>
struct ScaleColumnsBody {
  View<T> x;
  const float* squares;
  __device__ void operator()(unsigned row, std::int64_t col, Part part) const {
    constexpr float kShortest = 1e-12F;  // torch.nn.functional.normalize's
    float values[kChunk];
    float square[kChunk];
    load(x.row(row) + col, part, values);
    load(squares + col, part, square);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float length = sqrtf(square[i]);
      values[i] /= length > kShortest ? length : kShortest;
    }
    store(x.row(row) + col, part, values);
  }
};

}  // namespace

void row_products(const Queue& queue, Matrix a, Matrix b, std::int64_t first, std::int64_t columns,
                  Matrix sums) {
  if (sums.cols == 0) return;
  with_element(a.dtype, [&](auto left) {
    with_element(b.dtype, [&](auto right) {
      using A = decltype(left);
      using B = decltype(right);
      launch(queue, {.x = static_cast<unsigned>(sums.cols), .threads = kRowThreads},
             row_products_kernel<A, B>, a.as<const A>(), b.as<const B>(), a.cols, first, columns,
             View<float>(sums));
    });
  });
}

void remove_row_parts(const Queue& queue, Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                      Matrix sums) {
  if (sums.cols == 0) return;
  with_element(g.dtype, [&](auto gradient) {
    with_element(w.dtype, [&](auto weight) {
      using G = decltype(gradient);
      using W = decltype(weight);
      launch(queue, {.x = static_cast<unsigned>(sums.cols), .threads = kRowThreads},
             remove_row_parts_kernel<G, W>, g.as<G>(), w.as<const W>(), g.cols, first, columns,
             View<const float>(sums));
    });
  });
}

void scale_columns(const Queue& queue, Matrix x, Matrix squares) {
  with_element(x.dtype, [&](auto type) {
    using T = decltype(type);
    over_chunks(queue, x.rows, x.cols, all_aligned(x, squares),
                ScaleColumnsBody<T>{View<T>(x), squares.as<const float>()});
  });
}

}  // namespace plumbline::cuda
