// RMSNorm and LayerNorm against double references; gradients against central differences of them.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr double kEpsilon = 1e-5;

struct Statistics {
  double mean = 0;
  double rstd = 0;
};

Statistics statistics(const Dense& x, std::int64_t row, bool centered) {
  Statistics result;
  const auto n = static_cast<double>(x.cols);
  for (std::int64_t j = 0; j < x.cols; ++j) result.mean += centered ? x(row, j) / n : 0;
  double squares = 0;
  for (std::int64_t j = 0; j < x.cols; ++j) squares += std::pow(x(row, j) - result.mean, 2);
  result.rstd = 1 / std::sqrt(squares / n + kEpsilon);
  return result;
}

/// RMSNorm when not centered (b is zero then).
Dense normalise(const Dense& x, const Dense& w, const Dense& b, bool centered) {
  Dense y(x.rows, x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const Statistics s = statistics(x, i, centered);
    for (std::int64_t j = 0; j < x.cols; ++j) y(i, j) = (x(i, j) - s.mean) * s.rstd * w(0, j) + b(0, j);
  }
  return y;
}

Dense plus(const Dense& a, const Dense& b) {
  return dense(a.rows, a.cols, [&](std::int64_t i, std::int64_t j) { return a(i, j) + b(i, j); });
}

/// The size of the terms of the gradient towards x, w·dy and its two projections, which may cancel.
Dense terms_of_gradient(const Dense& x, const Dense& w, const Dense& dy, bool centered) {
  Dense terms(x.rows, x.cols);
  const auto n = static_cast<double>(x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const Statistics s = statistics(x, i, centered);
    const auto standard = [&](std::int64_t j) { return std::abs(x(i, j) - s.mean) * s.rstd; };
    double mean = 0;
    double projection = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      mean += std::abs(w(0, j) * dy(i, j)) / n;
      projection += std::abs(w(0, j) * dy(i, j)) * standard(j) / n;
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      terms(i, j) = s.rstd * (std::abs(w(0, j) * dy(i, j)) + mean + standard(j) * projection);
    }
  }
  return terms;
}

enum class Residual { none, separate, in_place };

void check(std::int64_t rows, std::int64_t h, const Storage& storage, DType gradient_type, bool centered,
           Residual residual_kind) {
  const std::string what =
      fmt::format("{} {}x{} {} grad {} residual {}", centered ? "layernorm" : "rmsnorm", rows, h,
                  describe(storage), name_of(gradient_type), static_cast<int>(residual_kind));
  const DType type = storage.type;
  const Guarded x = random_matrix(rows, h, type, storage.gap);
  const Guarded w = random_matrix(1, h, type);
  const Guarded b = random_matrix(1, h, type);
  const Guarded y(rows, h, type, storage.gap);
  const Guarded mean(1, rows, DType::fp32);
  const Guarded rstd(1, rows, DType::fp32);
  if (centered) {
    operators().layernorm_forward(x, w, b, y, mean, rstd, kEpsilon);
  } else {
    operators().rmsnorm_forward(x, w, y, rstd, kEpsilon);
  }
  const Dense bias = centered ? b.read() : Dense(1, h);
  const auto by_x = [&](const Dense& value) { return normalise(value, w.read(), bias, centered); };
  const auto by_w = [&](const Dense& value) { return normalise(x.read(), value, bias, centered); };
  expect_close(y, by_x(x.read()), tolerance(type), what + " y");
  expect_close(rstd, dense(1, rows, [&](auto, auto t) { return statistics(x.read(), t, centered).rstd; }),
               tolerance(DType::fp32), what + " rstd");

  const Guarded dy = random_matrix(rows, h, type, storage.gap);
  const Guarded dw = random_matrix(1, h, gradient_type);
  const Guarded db = random_matrix(1, h, gradient_type);
  const Guarded dx = random_matrix(rows, h, type, storage.gap);
  const Guarded other = random_matrix(rows, h, type, storage.gap);
  Matrix residual;
  Dense expected_dx = numerical_gradient(by_x, x.read(), dy.read());
  if (residual_kind != Residual::none) {
    const Guarded& source = residual_kind == Residual::separate ? other : dx;
    residual = source;
    expected_dx = plus(expected_dx, source.read());
  }
  const Dense expected_dw = plus(dw.read(), numerical_gradient(by_w, w.read(), dy.read()));
  const Dense expected_db = dense(1, h, [&](auto, auto j) {
    double sum = db.read()(0, j);
    for (std::int64_t i = 0; i < rows; ++i) sum += dy.read()(i, j);
    return sum;
  });
  if (centered) {
    operators().layernorm_backward(dy, x, w, mean, rstd, residual, dx, dw, db);
    expect_close(db, expected_db, tolerance(gradient_type), what + " db");
  } else {
    operators().rmsnorm_backward(dy, x, w, rstd, residual, dx, dw);
  }
  expect_close(dx, expected_dx, tolerance(type), what + " dx",
               terms_of_gradient(x.read(), w.read(), dy.read(), centered));
  expect_close(dw, expected_dw, tolerance(gradient_type), what + " dw");
}

TEST(Norms, ForwardAndBackward) {
  for (const Storage& storage : storages()) {
    for (const bool centered : {false, true}) {
      for (const std::int64_t h : {5, 16, 37}) {
        for (const Residual residual : {Residual::none, Residual::separate, Residual::in_place}) {
          check(3, h, storage, DType::fp32, centered, residual);
          check(2, h, storage, storage.type, centered, residual);
        }
      }
    }
  }
}

/// Rows whose sums of weight gradients, 4 bytes a column, are more than a block's shared memory.
TEST(Norms, RowsOfAnyWidth) {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kColumns = 60'013;
  for (const bool centered : {false, true}) {
    const std::string what = centered ? "wide layernorm" : "wide rmsnorm";
    const Guarded x = random_matrix(kRows, kColumns, DType::fp32);
    const Guarded w = random_matrix(1, kColumns, DType::fp32);
    const Guarded b = random_matrix(1, kColumns, DType::fp32);
    const Guarded dy = random_matrix(kRows, kColumns, DType::fp32);
    const Guarded y(kRows, kColumns, DType::fp32);
    const Guarded dx(kRows, kColumns, DType::fp32);
    const Guarded mean(1, kRows, DType::fp32);
    const Guarded rstd(1, kRows, DType::fp32);
    const Guarded dw = random_matrix(1, kColumns, DType::fp32);
    const Guarded db = random_matrix(1, kColumns, DType::fp32);
    const Dense standard =
        normalise(x.read(), dense(1, kColumns, [](auto, auto) { return 1; }), Dense(1, kColumns), centered);
    const Dense d = dy.read();
    const Dense expected_dw = dense(1, kColumns, [&, before = dw.read()](auto, auto j) {
      double sum = before(0, j);
      for (std::int64_t i = 0; i < kRows; ++i) sum += d(i, j) * standard(i, j);
      return sum;
    });
    const Dense expected_db = dense(1, kColumns, [&, before = db.read()](auto, auto j) {
      double sum = before(0, j);
      for (std::int64_t i = 0; i < kRows; ++i) sum += d(i, j);
      return sum;
    });
    if (centered) {
      operators().layernorm_forward(x, w, b, y, mean, rstd, kEpsilon);
      operators().layernorm_backward(dy, x, w, mean, rstd, {}, dx, dw, db);
      expect_close(db, expected_db, tolerance(DType::fp32), what + " db");
    } else {
      operators().rmsnorm_forward(x, w, y, rstd, kEpsilon);
      operators().rmsnorm_backward(dy, x, w, rstd, {}, dx, dw);
    }
    expect_close(dw, expected_dw, tolerance(DType::fp32), what + " dw");
    const Dense weights = w.read();
    const Dense expected_dx = [&] {
      Dense gradient(kRows, kColumns);
      for (std::int64_t i = 0; i < kRows; ++i) {
        const double r = statistics(x.read(), i, centered).rstd;
        double of_mean = 0;
        double projection = 0;
        for (std::int64_t j = 0; j < kColumns; ++j) {
          of_mean += centered ? d(i, j) * weights(0, j) / kColumns : 0;
          projection += d(i, j) * weights(0, j) * standard(i, j) / kColumns;
        }
        for (std::int64_t j = 0; j < kColumns; ++j)
          gradient(i, j) = r * (d(i, j) * weights(0, j) - of_mean - standard(i, j) * projection);
      }
      return gradient;
    }();
    expect_close(dx, expected_dx, tolerance(DType::fp32), what + " dx",
                 terms_of_gradient(x.read(), w.read(), d, centered));
  }
}

TEST(Norms, LargeMeanKeepsItsVariance) {
  // Mean 1000 and deviation 1 in fp32: squares summed before centering would have lost the variance.
  const Guarded x = random_matrix(2, 64, DType::fp32);
  Guarded shifted(2, 64, DType::fp32);
  shifted.write(dense(2, 64, [&](auto i, auto j) { return x.read()(i, j) + 1000; }));
  Guarded w(1, 64, DType::fp32);
  w.write(dense(1, 64, [](auto, auto) { return 1; }));
  Guarded b(1, 64, DType::fp32);
  b.write(Dense(1, 64));
  const Guarded y(2, 64, DType::fp32);
  const Guarded mean(1, 2, DType::fp32);
  const Guarded rstd(1, 2, DType::fp32);
  operators().layernorm_forward(shifted, w, b, y, mean, rstd, kEpsilon);
  expect_close(y, normalise(shifted.read(), w.read(), b.read(), true), 1e-7, "y");
}

TEST(Norms, NoRowsIsNoWorkAndBadShapesThrow) {
  const Guarded none(0, 8, DType::fp32);
  const Guarded w = random_matrix(1, 8, DType::fp32);
  const Guarded statistic(1, 0, DType::fp32);
  EXPECT_NO_THROW(operators().rmsnorm_forward(none, w, none, statistic, kEpsilon));
  const Guarded narrow = random_matrix(1, 7, DType::fp32);
  EXPECT_THROW(operators().rmsnorm_forward(none, narrow, none, statistic, kEpsilon), Error);
  const Guarded half(0, 8, DType::bf16);
  EXPECT_THROW(operators().rmsnorm_forward(none, w, half, statistic, kEpsilon), Error);
}

void check_of_a_sum(std::int64_t rows, std::int64_t h, const Storage& storage, bool centered, double factor,
                    bool with_bias) {
  const std::string what = fmt::format("{} of a sum {}x{} {} factor {}{}", centered ? "layernorm" : "rmsnorm",
                                       rows, h, describe(storage), factor, with_bias ? ", bias" : "");
  const DType type = storage.type;
  const Guarded a = random_matrix(rows, h, type, storage.gap);
  const Guarded b = random_matrix(rows, h, type, 2 * storage.gap);
  const Guarded bias = random_matrix(1, h, type);
  const Guarded w = random_matrix(1, h, type);
  const Guarded shift = random_matrix(1, h, type);
  const Guarded y(rows, h, type, storage.gap);
  const Guarded mean(1, rows, DType::fp32);
  const Guarded rstd(1, rows, DType::fp32);
  const Dense left = a.read();
  const Dense right = b.read();
  const Dense shifts = bias.read();
  const auto added = [&](bool sizes) {
    const auto term = [&](double value) { return sizes ? std::abs(value) : value; };
    return dense(rows, h, [&](auto i, auto j) {
      return term(left(i, j)) + term(factor * right(i, j)) + (with_bias ? term(shifts(0, j)) : 0);
    });
  };
  const Dense expected = added(false);
  const Dense terms = added(true);
  const ResidualSum sum{a, b, factor, with_bias ? bias.matrix() : Matrix(),
                        a};  // in place, as the training step does
  if (centered) {
    operators().add_layernorm_forward(sum, w, shift, y, mean, rstd, kEpsilon);
  } else {
    operators().add_rmsnorm_forward(sum, w, y, rstd, kEpsilon);
  }
  expect_close(a, expected, tolerance(type), what + " sum", terms);
  // The norm reads the sum as it was stored: the norm's own operator gives the same later.
  const Dense stored = a.read();
  expect_close(y, normalise(stored, w.read(), centered ? shift.read() : Dense(1, h), centered),
               tolerance(type), what + " y");
  expect_close(rstd, dense(1, rows, [&](auto, auto t) { return statistics(stored, t, centered).rstd; }),
               tolerance(DType::fp32), what + " rstd");
  if (centered) {
    expect_close(mean, dense(1, rows, [&](auto, auto t) { return statistics(stored, t, true).mean; }),
                 tolerance(DType::fp32), what + " mean", dense(1, rows, [](auto, auto) { return 1; }));
  }
  EXPECT_TRUE(b.intact() && bias.intact() && w.intact()) << what;
}

TEST(Norms, OfASumThatIsMadeOnTheWay) {
  for (const Storage& storage : storages()) {
    for (const bool centered : {false, true}) {
      for (const std::int64_t h : {1, 5, 16, 37, 2500}) {
        check_of_a_sum(3, h, storage, centered, 1, true);
        check_of_a_sum(7, h, storage, centered, 0.5, false);
      }
    }
  }
  const Guarded x = random_matrix(2, 8, DType::fp32);
  const Guarded w = random_matrix(1, 8, DType::fp32);
  const Guarded narrow = random_matrix(1, 7, DType::fp32);
  const Guarded statistic(1, 2, DType::fp32);
  const Guarded before = random_matrix(2, 8, DType::fp32);
  const Guarded sum(2, 8, DType::fp32);
  EXPECT_THROW(operators().add_rmsnorm_forward({x, x, 1, {}, sum}, narrow, before, statistic, kEpsilon),
               Error);
  EXPECT_THROW(operators().add_rmsnorm_forward({x, x, 1, narrow, sum}, w, before, statistic, kEpsilon),
               Error);
  EXPECT_THROW(operators().add_rmsnorm_forward({x, x, 1, {}, sum}, w, before, narrow, kEpsilon), Error);
  EXPECT_THROW(operators().add_layernorm_forward({x, x, 1, {}, sum}, w, narrow, before, statistic, statistic,
                                                 kEpsilon),
               Error);
  EXPECT_EQ(sum.bytes(), Guarded(2, 8, DType::fp32).bytes());  // nothing was written
}

/// Heads in a slice of a wider matrix, each a row of its own for the reference.
TEST(Norms, OfHeads) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t d : {2, 8, 37, 128, 200, 300, 1030}) {
      const std::string what = fmt::format("heads of {} {}", d, describe(storage));
      const bool latent = d > 256;  // as wide as latents, which are normalised as one head
      const std::int64_t tokens = latent ? 2 : 5;
      const std::int64_t heads = latent ? 1 : 3;
      const DType type = storage.type;
      const auto head_rows = [&](const Dense& wide) {
        return dense(tokens * heads, d, [&](auto i, auto j) { return wide(i / heads, i % heads * d + j); });
      };
      const Guarded wide = random_matrix(tokens, (heads + 1) * d, type, storage.gap);
      const Matrix x = wide.matrix().columns(0, heads * d);
      const Guarded w = random_matrix(1, d, type);
      const Guarded y(tokens, heads * d, type, storage.gap);
      const Guarded rstd(tokens, heads, DType::fp32, 2);
      operators().head_norm_forward(x, w, y, rstd, kEpsilon);
      const Dense rows = head_rows(wide.read());
      const Dense none(1, d);
      const Dense normed = normalise(rows, w.read(), none, false);
      expect_close(y,
                   dense(tokens, heads * d, [&](auto i, auto j) { return normed(i * heads + j / d, j % d); }),
                   tolerance(type), what + " y");

      const Guarded dy = random_matrix(tokens, heads * d, type, storage.gap);
      const Guarded dw = random_matrix(1, d, DType::fp32);
      const Dense gradient = head_rows(dy.read());
      const Dense before = dw.read();
      Guarded of_frozen(tokens, heads * d, type, storage.gap);
      of_frozen.write(dy.read());
      operators().head_norm_backward(dy, x, w, rstd, dy, dw);  // in place, as the training step does
      operators().head_norm_backward(of_frozen, x, w, rstd, of_frozen, {});
      EXPECT_EQ(of_frozen.read().values, dy.read().values) << what;
      const Dense expected = numerical_gradient(
          [&](const Dense& value) { return normalise(value, w.read(), none, false); }, rows, gradient);
      const Dense terms = terms_of_gradient(rows, w.read(), gradient, false);
      const auto wide_again = [&](const Dense& of) {
        return dense(tokens, heads * d, [&](auto i, auto j) { return of(i * heads + j / d, j % d); });
      };
      expect_close(dy, wide_again(expected), tolerance(type), what + " dx", wide_again(terms));
      const Dense dw_expected = numerical_gradient(
          [&](const Dense& value) { return normalise(rows, value, none, false); }, w.read(), gradient);
      const Dense dw_terms = dense(1, d, [&](auto, std::int64_t j) {
        double sum = std::abs(before(0, j));
        for (std::int64_t i = 0; i < rows.rows; ++i) {
          sum += std::abs(gradient(i, j) * rows(i, j)) * statistics(rows, i, false).rstd;
        }
        return sum;
      });
      expect_close(dw, plus(before, dw_expected), tolerance(DType::fp32), what + " dw", dw_terms);
    }
  }
  const Guarded x = random_matrix(2, 8, DType::fp32);
  const Guarded w = random_matrix(1, 3, DType::fp32);
  const Guarded rstd(2, 2, DType::fp32);
  EXPECT_THROW(operators().head_norm_forward(x, w, x, rstd, kEpsilon), Error);
}

}  // namespace
}  // namespace plumbline::test
