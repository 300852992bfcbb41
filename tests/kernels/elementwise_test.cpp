// Activations, rotary embedding, sums, copies and scaling against double references.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kWidths[] = {1, 16, 37, 70};
constexpr std::int64_t kRows = 3;

double silu(double x) {
  return x / (1 + std::exp(-x));
}
/// 0.5·(1 + tanh(a/2)) = sigmoid(a), which loses nothing where tanh is near -1.
double gelu_argument(double x) {
  return std::sqrt(8 / std::acos(-1)) * (x + 0.044715 * x * x * x);
}
double gelu(double x) {
  return x / (1 + std::exp(-gelu_argument(x)));
}
Dense swiglu(const Dense& gate_up) {
  const std::int64_t width = gate_up.cols / 2;
  return dense(gate_up.rows, width,
               [&](auto i, auto j) { return silu(gate_up(i, j)) * gate_up(i, width + j); });
}
/// An exponential is off by as many roundings as its argument is large; the two parts of a slope may cancel.
Dense terms_of_swiglu_gradient(const Dense& dy, const Dense& gate_up) {
  return dense(gate_up.rows, gate_up.cols, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t at = j % dy.cols;
    const double gate = gate_up(i, at);
    const double size = (1 + std::abs(gate)) * dy(i, at) * silu(gate);
    return j < dy.cols ? size * gate_up(i, dy.cols + at) * (1 / gate + 1) : size;
  });
}
Dense terms_of_gelu_gradient(const Dense& dy, const Dense& x) {
  return dense(x.rows, x.cols, [&](auto i, auto j) {
    const double argument = std::abs(gelu_argument(x(i, j)));
    const double sigmoid = 1 / (1 + std::exp(-gelu_argument(x(i, j))));
    return dy(i, j) * sigmoid * (1 + argument) *
           (1 + 3 * argument);  // x·d(argument)/dx is at most three of it
  });
}
Dense gelu_of(const Dense& x) {
  return dense(x.rows, x.cols, [&](auto i, auto j) { return gelu(x(i, j)); });
}

TEST(Activations, Swiglu) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      const std::string what = fmt::format("{} width {}", describe(storage), width);
      const Guarded gate_up = random_matrix(kRows, 2 * width, storage.type, storage.gap, 3);
      const Guarded y(kRows, width, storage.type, storage.gap);
      operators().swiglu_forward(gate_up, y);
      expect_close(y, swiglu(gate_up.read()), tolerance(storage.type), what);
      const Guarded dy = random_matrix(kRows, width, storage.type, storage.gap);
      const Guarded dgate_up(kRows, 2 * width, storage.type, storage.gap);
      operators().swiglu_backward(dy, gate_up, dgate_up);
      expect_close(dgate_up, numerical_gradient(swiglu, gate_up.read(), dy.read()), tolerance(storage.type),
                   what, terms_of_swiglu_gradient(dy.read(), gate_up.read()));
    }
  }
}

TEST(Activations, Gelu) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      const std::string what = fmt::format("{} width {}", describe(storage), width);
      const Guarded x = random_matrix(kRows, width, storage.type, storage.gap, 2);
      const Guarded y(kRows, width, storage.type, storage.gap);
      operators().gelu_forward(x, y);
      expect_close(y, gelu_of(x.read()), tolerance(storage.type), what);
      const Guarded dy = random_matrix(kRows, width, storage.type, storage.gap);
      const Dense expected = numerical_gradient(gelu_of, x.read(), dy.read());
      const Dense terms = terms_of_gelu_gradient(dy.read(), x.read());
      operators().gelu_backward(dy, x, dy);  // in place, as the training step does
      expect_close(dy, expected, tolerance(storage.type), what, terms);
    }
  }
}

Dense geglu(const Dense& gate_up) {
  const std::int64_t width = gate_up.cols / 2;
  return dense(gate_up.rows, width,
               [&](auto i, auto j) { return gelu(gate_up(i, j)) * gate_up(i, width + j); });
}

TEST(Activations, Geglu) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      const std::string what = fmt::format("{} width {}", describe(storage), width);
      const Guarded gate_up = random_matrix(kRows, 2 * width, storage.type, storage.gap, 2);
      const Guarded y(kRows, width, storage.type, storage.gap);
      operators().geglu_forward(gate_up, y);
      expect_close(y, geglu(gate_up.read()), tolerance(storage.type), what);
      const Guarded dy = random_matrix(kRows, width, storage.type, storage.gap);
      const Guarded dgate_up(kRows, 2 * width, storage.type, storage.gap);
      operators().geglu_backward(dy, gate_up, dgate_up);
      const Dense d = dy.read();
      const Dense in = gate_up.read();
      const Dense terms = dense(kRows, 2 * width, [&](std::int64_t i, std::int64_t j) {
        const double gate = in(i, j % width);
        const double size = std::abs(d(i, j % width)) * (1 + std::abs(gelu_argument(gate)));
        return size * (j < width ? (1 + 3 * std::abs(gelu_argument(gate))) * std::abs(in(i, j + width))
                                 : std::abs(gelu(gate)));
      });
      expect_close(dgate_up, numerical_gradient(geglu, in, d), tolerance(storage.type), what, terms);
    }
  }
}

double pointwise_value(Pointwise function, double x) {
  if (function == Pointwise::gelu_erf) return x * 0.5 * std::erfc(-x / std::sqrt(2));
  return x <= 0 ? 0 : function == Pointwise::relu ? x : x * x;
}
double pointwise_slope(Pointwise function, double x) {
  if (function == Pointwise::gelu_erf) {
    return 0.5 * std::erfc(-x / std::sqrt(2)) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1));
  }
  return x <= 0 ? 0 : function == Pointwise::relu ? 1 : 2 * x;
}

TEST(Activations, Pointwise) {
  for (const Pointwise function : {Pointwise::gelu_erf, Pointwise::relu, Pointwise::squared_relu}) {
    for (const Storage& storage : storages()) {
      for (const std::int64_t width : kWidths) {
        const std::string what =
            fmt::format("function {} {} width {}", static_cast<int>(function), describe(storage), width);
        const Guarded x = random_matrix(kRows, width, storage.type, storage.gap, 2);
        const Dense in = x.read();
        const Guarded y(kRows, width, storage.type, storage.gap);
        operators().pointwise_forward(function, x, y);
        // An error function is off by as many roundings as its argument is large.
        const auto terms = [&](auto value) {
          return dense(kRows, width, [&](auto i, auto j) {
            return std::abs(value(i, j)) * (1 + in(i, j) * in(i, j)) + std::abs(in(i, j)) * 1e-3;
          });
        };
        expect_close(y,
                     dense(kRows, width, [&](auto i, auto j) { return pointwise_value(function, in(i, j)); }),
                     tolerance(storage.type), what, terms([&](auto i, auto j) { return in(i, j); }));
        const Guarded dy = random_matrix(kRows, width, storage.type, storage.gap);
        const Dense d = dy.read();
        operators().pointwise_backward(function, dy, x, dy);  // in place, as the training step does
        expect_close(dy,
                     dense(kRows, width,
                           [&](auto i, auto j) { return d(i, j) * pointwise_slope(function, in(i, j)); }),
                     tolerance(storage.type), what, terms([&](auto i, auto j) { return 2 * d(i, j); }));
      }
    }
  }
}

TEST(Activations, PointwiseAtItsEnds) {
  Guarded x(1, 7, DType::fp32);
  x.write(dense(1, 7, [](auto, auto j) { return std::vector<double>{-1e6, -30, -0.0, 0, 30, 1e3, 1e6}[j]; }));
  for (const Pointwise function : {Pointwise::gelu_erf, Pointwise::relu, Pointwise::squared_relu}) {
    const Dense in = x.read();
    const Guarded y(1, 7, DType::fp32);
    operators().pointwise_forward(function, x, y);
    expect_close(y, dense(1, 7, [&](auto i, auto j) { return pointwise_value(function, in(i, j)); }), 1e-6,
                 "ends");
    Guarded ones(1, 7, DType::fp32);
    ones.write(dense(1, 7, [](auto, auto) { return 1.0; }));
    operators().pointwise_backward(function, ones, x, ones);
    const Dense found = ones.read();
    for (std::int64_t j = 0; j < 7; ++j) {
      if (function == Pointwise::gelu_erf && in(0, j) == 0) continue;
      EXPECT_NEAR(found(0, j), pointwise_slope(function, in(0, j)), 1e-6 * std::abs(found(0, j)) + 1e-30)
          << j;
    }
  }
  const Guarded poisoned = random_matrix(1, 20, DType::fp32);
  const float nan = -std::numeric_limits<float>::quiet_NaN();
  std::memcpy(poisoned.matrix().at(0, 3), &nan, sizeof nan);
  const Guarded y(1, 20, DType::fp32);
  operators().pointwise_forward(Pointwise::relu, poisoned, y);
  EXPECT_TRUE(std::isnan(y.read()(0, 3)));
  EXPECT_THROW(operators().pointwise_forward(Pointwise::relu, poisoned, x), Error);
}

TEST(Activations, ExtremesStayFiniteAndNanStaysNan) {
  Guarded x(1, 9, DType::fp32);
  x.write(dense(1, 9, [](auto, auto j) {
    return std::vector<double>{-1e4, -100, -88, -0.0, 0, 88, 100, 1e4, 1e6}[j];
  }));
  const Guarded y(1, 9, DType::fp32);
  operators().gelu_forward(x, y);
  expect_close(y, gelu_of(x.read()), 1e-12, "gelu");
  const Guarded poisoned = random_matrix(2, 40, DType::bf16);
  const std::uint16_t nan = 0x7fc0;
  std::memcpy(poisoned.matrix().at(1, 3), &nan, sizeof nan);
  const Guarded out(2, 20, DType::bf16);
  operators().swiglu_forward(poisoned, out);
  EXPECT_TRUE(std::isnan(out.read()(1, 3)));
  EXPECT_FALSE(std::isnan(out.read()(0, 3)));
}

TEST(Rope, RotatesAndBack) {
  constexpr std::int64_t kSeq = 5;
  for (const Storage& storage : storages()) {
    for (const std::int64_t d : {2, 6, 32, 64}) {
      const std::string what = fmt::format("{} head {}", describe(storage), d);
      const std::int64_t half = d / 2;
      const auto angle = [&](std::int64_t t, std::int64_t j) {
        return static_cast<double>(t % kSeq) *
               std::pow(100.0, -static_cast<double>(j) / static_cast<double>(half));
      };
      Guarded cos(kSeq, half, DType::fp32);
      cos.write(dense(kSeq, half, [&](auto t, auto j) { return std::cos(angle(t, j)); }));
      Guarded sin(kSeq, half, DType::fp32);
      sin.write(dense(kSeq, half, [&](auto t, auto j) { return std::sin(angle(t, j)); }));
      // Two heads in a slice of a wider matrix, two sequences.
      const Guarded wide = random_matrix(2 * kSeq, 3 * d, storage.type, storage.gap);
      const Dense before = wide.read();
      const Dense expected = dense(2 * kSeq, 3 * d, [&](std::int64_t t, std::int64_t col) {
        if (col >= 2 * d) return before(t, col);
        const std::int64_t j = col % half;
        const bool first = col % d < half;
        const double partner = before(t, first ? col + half : col - half);
        return before(t, col) * std::cos(angle(t, j)) + (first ? -1 : 1) * partner * std::sin(angle(t, j));
      });
      operators().rope(wide.matrix().columns(0, 2 * d), cos, sin, d, false);
      expect_close(wide, expected, tolerance(storage.type), what);
      operators().rope(wide.matrix().columns(0, 2 * d), cos, sin, d, true);
      expect_close(wide, before, 2 * tolerance(storage.type), what + " and back");
    }
  }
}

/// Part of a head, in either order of pairs; the rest of the head stays.
TEST(Rope, RotatesTheFirstElementsOfAHead) {
  constexpr std::int64_t kSeq = 3;
  struct Part {
    std::int64_t head_dim, rotated;
    bool neighbours;
  };
  for (const Storage& storage : storages()) {
    for (const Part& p : {Part{8, 4, false}, Part{128, 64, false}, Part{6, 6, true}, Part{8, 4, true},
                          Part{100, 50, true}, Part{128, 64, true}}) {
      const std::string what =
          fmt::format("{} {} of {} {}", describe(storage), p.rotated, p.head_dim, p.neighbours);
      const std::int64_t half = p.rotated / 2;
      const auto angle = [&](std::int64_t t, std::int64_t pair) {
        return static_cast<double>(t % kSeq) *
               std::pow(50.0, -static_cast<double>(pair) / static_cast<double>(half));
      };
      Guarded cos(kSeq, half, DType::fp32);
      cos.write(dense(kSeq, half, [&](auto t, auto j) { return std::cos(angle(t, j)); }));
      Guarded sin(kSeq, half, DType::fp32);
      sin.write(dense(kSeq, half, [&](auto t, auto j) { return std::sin(angle(t, j)); }));
      const Guarded x = random_matrix(2 * kSeq, 2 * p.head_dim, storage.type, storage.gap);
      const Dense before = x.read();
      const Dense expected = dense(2 * kSeq, 2 * p.head_dim, [&](std::int64_t t, std::int64_t col) {
        const std::int64_t at = col % p.head_dim;
        if (at >= p.rotated) return before(t, col);
        const std::int64_t pair = p.neighbours ? at / 2 : at % half;
        const bool first = p.neighbours ? at % 2 == 0 : at < half;
        const std::int64_t distance = p.neighbours ? 1 : half;
        const double partner = before(t, first ? col + distance : col - distance);
        return before(t, col) * std::cos(angle(t, pair)) +
               (first ? -1 : 1) * partner * std::sin(angle(t, pair));
      });
      const auto rotate = [&](bool back) {
        if (p.neighbours) return operators().rope_neighbours(x, cos, sin, p.head_dim, back);
        operators().rope(x, cos, sin, p.head_dim, back);
      };
      rotate(false);
      expect_close(x, expected, tolerance(storage.type), what);
      rotate(true);
      expect_close(x, before, 2 * tolerance(storage.type), what + " and back");
    }
  }
}

TEST(Elementwise, AddWithAndWithoutBiasAlsoInPlace) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      for (const bool with_bias : {false, true}) {
        const Guarded a = random_matrix(kRows, width, storage.type, storage.gap);
        const Guarded b = random_matrix(kRows, width, storage.type);
        const Guarded bias = random_matrix(1, width, storage.type);
        const Dense expected = dense(kRows, width, [&](auto i, auto j) {
          return a.read()(i, j) + b.read()(i, j) + (with_bias ? bias.read()(0, j) : 0);
        });
        const Dense terms = dense(kRows, width, [&](auto i, auto j) {
          return std::abs(a.read()(i, j)) + std::abs(b.read()(i, j)) + std::abs(bias.read()(0, j));
        });
        const Guarded y(kRows, width, storage.type, storage.gap);
        const Matrix given = with_bias ? bias.matrix() : Matrix{};
        operators().add(a, b, given, y);
        expect_close(y, expected, tolerance(storage.type), describe(storage), terms);
        operators().add(a, b, given, b);
        expect_close(b, expected, tolerance(storage.type), describe(storage) + " in place", terms);
      }
    }
  }
}

TEST(Elementwise, AddAMultiple) {
  for (const Storage& storage : storages()) {
    for (const double factor : {-0.5, 1.0, 7.4833}) {
      const Guarded a = random_matrix(kRows, 37, storage.type, storage.gap);
      const Guarded b = random_matrix(kRows, 37, storage.type);
      const Guarded bias = random_matrix(1, 37, storage.type);
      const Dense expected = dense(kRows, 37, [&](auto i, auto j) {
        return a.read()(i, j) + factor * b.read()(i, j) + bias.read()(0, j);
      });
      const Dense terms = dense(kRows, 37, [&](auto i, auto j) {
        return std::abs(a.read()(i, j)) + std::abs(factor * b.read()(i, j)) + std::abs(bias.read()(0, j));
      });
      operators().add_multiple(a, b, factor, bias, a);
      expect_close(a, expected, tolerance(storage.type), describe(storage), terms);
    }
  }
}

TEST(Elementwise, BiasGradientAccumulates) {
  for (const Storage& storage : storages()) {
    for (const DType gradient : {DType::fp32, storage.type}) {
      const Guarded dy = random_matrix(50, 37, storage.type, storage.gap);
      const Guarded dbias = random_matrix(1, 37, gradient);
      const Dense expected = dense(1, 37, [&](auto, auto j) {
        double sum = dbias.read()(0, j);
        for (std::int64_t t = 0; t < 50; ++t) sum += dy.read()(t, j);
        return sum;
      });
      operators().bias_backward(dy, dbias);
      expect_close(dbias, expected, tolerance(gradient), describe(storage));
    }
  }
}

TEST(Elementwise, CopyConvertsAndRoundsToEven) {
  for (const DType from_type : element_types()) {
    for (const DType to_type : element_types()) {
      for (const std::int64_t gap : {0, 3}) {
        const Guarded from = random_matrix(kRows, 37, from_type, gap);
        const Guarded to(kRows, 37, to_type, 2 * gap);
        Guarded expected(kRows, 37, to_type);
        expected.write(from.read());
        operators().copy(from, to);
        expect_close(to, expected.read(), 0, fmt::format("{} to {}", name_of(from_type), name_of(to_type)));
      }
    }
  }
  // Halfway cases, infinities and a NaN with only low mantissa bits.
  const std::uint32_t bits[] = {0x3f808000U, 0x3f818000U, 0x3f808001U, 0x7f800000U,
                                0xff800000U, 0x7f800001U, 0x7f7fffffU};
  const std::uint16_t expected[] = {0x3f80, 0x3f82, 0x3f81, 0x7f80, 0xff80, 0x7fff, 0x7f80};
  std::uint16_t found[7];
  operators().copy(Matrix(const_cast<std::uint32_t*>(bits), 1, 7, DType::fp32),
                   Matrix(found, 1, 7, DType::bf16));
  if (found[5] > 0x7f80) found[5] = 0x7fff;  // any NaN
  for (int i = 0; i < 7; ++i) EXPECT_EQ(found[i], expected[i]) << i;
}

TEST(Elementwise, FillScaleAndNorm) {
  for (const Storage& storage : storages()) {
    const Guarded x = random_matrix(kRows, 37, storage.type, storage.gap);
    const Dense before = x.read();
    double squares = 0;
    for (const double value : before.values) squares += value * value;
    expect_within(value_of(operators().squared_norm(x)), squares, 1e-12 * squares, "squared norm");
    operators().scale(x, 0.37);
    expect_close(x, dense(kRows, 37, [&](auto i, auto j) { return 0.37 * before(i, j); }),
                 tolerance(storage.type), "scale");
    operators().fill(x, 1.5);
    expect_close(x, dense(kRows, 37, [](auto, auto) { return 1.5; }), 0, "fill");
  }
  const Guarded ids(2, 5, DType::int32, 1);
  operators().fill(ids, -100);
  expect_close(ids, dense(2, 5, [](auto, auto) { return -100; }), 0, "fill int32");
}

TEST(Elementwise, UploadAndDownload) {
  const Guarded x(2, 3, DType::fp32);
  const float host[6] = {1, 2, 3, 4, 5, 6};
  float back[6] = {};
  operators().upload(host, x);
  operators().download(x, back);
  EXPECT_TRUE(std::equal(std::begin(host), std::end(host), std::begin(back)));
  const Guarded gapped(2, 3, DType::fp32, 1);
  EXPECT_THROW(operators().upload(host, gapped), Error);
}

TEST(Elementwise, DisagreementsThrowAndNothingIsWritten) {
  const Guarded a(2, 4, DType::fp32);
  const Guarded b(2, 5, DType::fp32);
  EXPECT_THROW(operators().add(a, b, {}, a), Error);
  EXPECT_THROW(operators().add_multiple(a, b, 2, {}, a), Error);
  EXPECT_THROW(operators().copy(a, b), Error);
  EXPECT_THROW(operators().swiglu_forward(b, a), Error);
  EXPECT_THROW(operators().gelu_forward(a, b), Error);
  EXPECT_THROW(operators().rope(a, a, a, 4, false), Error);
  EXPECT_THROW(operators().bias_backward(a, b), Error);
  EXPECT_EQ(a.bytes(), Guarded(2, 4, DType::fp32).bytes());
}

}  // namespace
}  // namespace plumbline::test
