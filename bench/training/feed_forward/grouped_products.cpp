#include "bench/training/feed_forward/grouped_products.hpp"

namespace plumbline::training {

/// product(first row, rows, the expert's part of the weights).
template <class Product>
void GroupedProducts::each(const Matrix& weights, const Product& product) const {
  const std::int64_t height = weights.rows / static_cast<std::int64_t>(counts_.size());
  std::int64_t row = 0;
  std::int64_t at = 0;
  for (const std::int64_t count : counts_) {
    if (count > 0) product(row, count, weights.row_range(at, height));
    row += count;
    at += height;
  }
}

void GroupedProducts::forward(const Matrix& x, const Matrix& weights, const Matrix& y) const {
  each(weights, [&](std::int64_t row, std::int64_t rows, const Matrix& weight) {
    operators_.gemm({.a = x.row_range(row, rows),
                     .b = weight,
                     .c = y.row_range(row, rows),
                     .b_transposed = true,
                     .rows_vary = true});
  });
}

void GroupedProducts::input_gradient(const Matrix& dy, const Matrix& weights, const Matrix& dx) const {
  each(weights, [&](std::int64_t row, std::int64_t rows, const Matrix& weight) {
    operators_.gemm(
        {.a = dy.row_range(row, rows), .b = weight, .c = dx.row_range(row, rows), .rows_vary = true});
  });
}

void GroupedProducts::weight_gradient(const Matrix& dy, const Matrix& x, const Matrix& dweights) const {
  each(dweights, [&](std::int64_t row, std::int64_t rows, const Matrix& dweight) {
    operators_.gemm({.a = dy.row_range(row, rows),
                     .b = x.row_range(row, rows),
                     .c = dweight,
                     .a_transposed = true,
                     .accumulate = true,
                     .rows_vary = true});
  });
}

}  // namespace plumbline::training
