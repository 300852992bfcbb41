// An output layer whose rows are divided by their lengths: logits, and the gradient towards its weights,
// composed of the operators as in a training step, and from slices of rows as ZeRO has them.
#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kRowCount = 11;
constexpr std::int64_t kColumns = 37;

double length_of(const Dense& w, std::int64_t row) {
  double squares = 0;
  for (std::int64_t j = 0; j < w.cols; ++j) squares += w(row, j) * w(row, j);
  return std::sqrt(squares);
}

Matrix slice_of(const Guarded& x, std::int64_t first, std::int64_t count) {
  return {x.matrix().at(0, first), 1, count, x.matrix().dtype};
}

TEST(NormedRows, ColumnsAreDividedByLengths) {
  for (const Storage& storage : storages()) {
    const Guarded w = random_matrix(kRowCount, kColumns, storage.type);
    const Guarded sums(2, kRowCount, DType::fp32);
    const Matrix row = w.matrix().reshaped(1, kRowCount * kColumns);
    operators().row_products(row, row, 0, kColumns, sums);
    const Guarded x = random_matrix(5, kRowCount, storage.type, storage.gap);
    const Dense expected =
        dense(5, kRowCount, [&](auto t, auto r) { return x.read()(t, r) / length_of(w.read(), r); });
    operators().scale_columns(x, sums.matrix().row_range(1, 1));
    expect_close(x, expected, tolerance(storage.type), describe(storage));
  }
}

/// Rows of zeros, as padding is, have no length.
TEST(NormedRows, ZerosStay) {
  const Guarded squares(1, 3, DType::fp32);
  squares.matrix().as<float>()[0] = squares.matrix().as<float>()[1] = squares.matrix().as<float>()[2] = 0;
  const Guarded x(2, 3, DType::fp32);
  operators().fill(x, 0);
  operators().scale_columns(x, squares);
  for (const double value : x.read().values) EXPECT_EQ(value, 0);
}

/// The gradient of f(w) = sum of c·w/|w| is (c - w(c·w)/|w|²)/|w|; the operators leave the part in
/// brackets.
TEST(NormedRows, GradientLosesItsPartAlongTheRow) {
  for (const Storage& storage : storages()) {
    for (const DType gradient : {DType::fp32, storage.type}) {
      for (const std::int64_t pieces : {1, 3}) {
        const Guarded w = random_matrix(1, kRowCount * kColumns + 7, storage.type);  // padded, as units are
        const Guarded g = random_matrix(1, kRowCount * kColumns + 7, gradient);
        const Dense weights = w.read();
        const Dense gradients = g.read();
        const auto at = [](const Dense& x, auto r, auto j) { return x(0, r * kColumns + j); };
        Dense expected = gradients;
        Dense terms = gradients;
        for (std::int64_t r = 0; r < kRowCount; ++r) {
          double product = 0;
          double square = 0;
          double size = 0;
          for (std::int64_t j = 0; j < kColumns; ++j) {
            product += at(gradients, r, j) * at(weights, r, j);
            size += std::fabs(at(gradients, r, j) * at(weights, r, j));
            square += at(weights, r, j) * at(weights, r, j);
          }
          for (std::int64_t j = 0; j < kColumns; ++j) {
            expected(0, r * kColumns + j) -= at(weights, r, j) * product / square;
            terms(0, r * kColumns + j) =
                std::fabs(at(gradients, r, j)) + std::fabs(at(weights, r, j)) * size / square;
          }
        }
        // Slices that end within rows: their sums are added up, as an all-reduce does.
        const std::int64_t whole = weights.cols;
        Dense total(2, kRowCount);
        const Guarded sums(2, kRowCount, DType::fp32);
        const auto each_piece = [&](auto&& f) {
          for (std::int64_t p = 0; p < pieces; ++p) {
            const std::int64_t first = whole * p / pieces;
            f(first, whole * (p + 1) / pieces - first);
          }
        };
        each_piece([&](auto first, auto count) {
          operators().row_products(slice_of(g, first, count), slice_of(w, first, count), first, kColumns,
                                   sums);
          for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += sums.read().values[i];
        });
        Guarded all(2, kRowCount, DType::fp32);
        all.write(total);
        each_piece([&](auto first, auto count) {
          operators().remove_row_parts(slice_of(g, first, count), slice_of(w, first, count), first, kColumns,
                                       all);
        });
        expect_close(g, expected, tolerance(gradient), describe(storage), terms);
      }
    }
  }
}

TEST(NormedRows, BadShapesThrow) {
  const Guarded a(1, 12, DType::fp32);
  const Guarded b(1, 11, DType::fp32);
  const Guarded sums(2, 3, DType::fp32);
  EXPECT_THROW(operators().row_products(a, b, 0, 4, sums), Error);
  EXPECT_THROW(operators().row_products(a, a, -1, 4, sums), Error);
  EXPECT_THROW(operators().row_products(a, a, 0, 0, sums), Error);
  EXPECT_THROW(operators().remove_row_parts(a, a, 0, 4, a), Error);
  EXPECT_THROW(operators().scale_columns(a, b), Error);
}

}  // namespace
}  // namespace plumbline::test
