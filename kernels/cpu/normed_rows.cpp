// Operators of an output layer with normalised rows besides its products.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

constexpr float kShortest = 1e-12F;  // torch.nn.functional.normalize's

/// f(row, first, count) for the parts of rows that elements [first, first + n) of a (rows, columns) matrix
/// cover; `first` counts within the n.
template <class F>
PLUMBLINE_INLINE void over_row_parts(std::int64_t first, std::int64_t n, std::int64_t columns,
                                     std::int64_t rows, F&& f) {
  for (std::int64_t at = 0; at < n;) {
    const std::int64_t row = (first + at) / columns;
    if (row >= rows) return;
    const std::int64_t end = std::min(n, (row + 1) * columns - first);
    f(row, at, end - at);
    at = end;
  }
}

template <class A, class B>
PLUMBLINE_MULTIVERSION void multiply_row_parts(const A* a, const B* b, std::int64_t n, std::int64_t first,
                                               std::int64_t columns, Matrix sums) {
  float* products = row_of<float>(sums, 0);
  float* squares = row_of<float>(sums, 1);
  over_row_parts(first, n, columns, sums.cols, [&](std::int64_t row, std::int64_t at, std::int64_t count) {
    LaneSum product;
    LaneSum square;
    for_lanes(count, [&] PLUMBLINE_LANES {
      const Lanes right = load(b + at + i, part);
      product += load(a + at + i, part) * right;
      square += right * right;
    });
    products[row] = sum(product);
    squares[row] = sum(square);
  });
}

template <class G, class W>
PLUMBLINE_MULTIVERSION void subtract_row_parts(G* g, const W* w, std::int64_t n, std::int64_t first,
                                               std::int64_t columns, Matrix sums) {
  const float* products = row_of<float>(sums, 0);
  const float* squares = row_of<float>(sums, 1);
  over_row_parts(first, n, columns, sums.cols, [&](std::int64_t row, std::int64_t at, std::int64_t count) {
    const float share = squares[row] == 0 ? 0.0F : products[row] / squares[row];
    for_lanes(count, [&] PLUMBLINE_LANES {
      store(g + at + i, load(g + at + i, part) - load(w + at + i, part) * share, part);
    });
  });
}

template <class T>
PLUMBLINE_MULTIVERSION void multiply_columns(Matrix x, const float* factors) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T* data = row_of<T>(x, row);
    for_lanes(x.cols,
              [&] PLUMBLINE_LANES { store(data + i, load(data + i, part) * load(factors + i, part), part); });
  }
}

}  // namespace

void CpuOperators::row_products(Matrix a, Matrix b, std::int64_t first, std::int64_t columns, Matrix sums) {
  fill(sums, 0);
  with_types("row_products", a.dtype, b.dtype, [&](auto left, auto right) {
    multiply_row_parts(a.as<decltype(left)>(), b.as<decltype(right)>(), a.cols, first, columns, sums);
  });
}

void CpuOperators::scale_columns(Matrix x, Matrix squares) {
  float* factors = column_sums(x.cols);
  const float* of = squares.as<float>();
  std::transform(of, of + x.cols, factors,
                 [](float square) { return 1 / std::max(std::sqrt(square), kShortest); });
  with_type("scale_columns", x.dtype, [&](auto type) { multiply_columns<decltype(type)>(x, factors); });
}

void CpuOperators::remove_row_parts(Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                                    Matrix sums) {
  with_types("remove_row_parts", g.dtype, w.dtype, [&](auto gradient, auto weight) {
    subtract_row_parts(g.as<decltype(gradient)>(), w.as<decltype(weight)>(), g.cols, first, columns, sums);
  });
}

}  // namespace plumbline::cpu
