// Products of FP8 operands against plain double loops over the same codes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/fp8_reference.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Types {
  DType a, b;
};
constexpr Types kOperands[] = {{DType::fp8_e4m3, DType::fp8_e4m3},
                               {DType::fp8_e5m2, DType::fp8_e4m3},
                               {DType::fp8_e4m3, DType::fp8_e5m2}};

struct Product {
  std::int64_t m, n, k;
  bool accumulate = false;
  bool bias = false;
};

/// `value` in every place.
Guarded number(double value, std::int64_t places = 1) {
  Guarded result(1, places, DType::fp32);
  result.write(dense(1, places, [&](auto, auto) { return value; }));
  return result;
}

Dense reference(const Dense& a, const Dense& b, double scale, const Dense& c, const Dense& bias,
                const Product& p) {
  return dense(p.m, p.n, [&](std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t l = 0; l < p.k; ++l) sum += a(i, l) * b(j, l);
    return sum * scale + (p.accumulate ? c(i, j) : 0) + (p.bias ? bias(0, j) : 0);
  });
}

Dense sizes(const Guarded& x) {
  Dense result = x.read();
  for (double& value : result.values) value = std::abs(value);
  return result;
}

void check(const Product& p, const Types& types, DType c_type, DType bias_type, std::int64_t gap) {
  const std::string what =
      fmt::format("{}x{}x{} {}·{} acc{} bias{} {} ->{} gap {}", p.m, p.n, p.k, name_of(types.a),
                  name_of(types.b), p.accumulate, p.bias, name_of(bias_type), name_of(c_type), gap);
  const Guarded a = random_matrix(p.m, p.k, types.a, gap, 30);
  const Guarded b = random_matrix(p.n, p.k, types.b, gap, 30);
  const Guarded bias = random_matrix(1, p.n, bias_type);
  const Guarded c = random_matrix(p.m, p.n, c_type, gap);
  // A row of scales: any place of four bytes.
  const std::int64_t place = random_integer(0, 7);
  const Guarded a_inverse = number(0.0371, 8);
  const Guarded b_inverse = number(0.00123, 8);
  const double scale = a_inverse.read()(0, 0) * b_inverse.read()(0, 0);
  const Dense expected = reference(a.read(), b.read(), scale, c.read(), bias.read(), p);
  Dense terms = reference(sizes(a), sizes(b), scale, sizes(c), sizes(bias), p);
  const double looser = std::max(1.0, fp8_sum_rounding() / std::sqrt(tolerance(DType::fp32)));
  for (double& term : terms.values) term *= looser;
  operators().gemm({.a = a,
                    .b = b,
                    .c = c,
                    .b_transposed = true,
                    .accumulate = p.accumulate,
                    .bias = p.bias ? bias.matrix() : Matrix{},
                    .a_inverse_scale = a_inverse.matrix().columns(place, 1),
                    .b_inverse_scale = b_inverse.matrix().columns(7 - place, 1)});
  expect_close(c, expected, tolerance(c_type), what, terms);
  EXPECT_TRUE(a_inverse.intact() && b_inverse.intact() && a.intact() && b.intact()) << what;
}

TEST(Fp8Gemm, EveryTypeAndMode) {
  const std::int64_t step = fp8_size_step();
  if (step == 0) GTEST_SKIP() << "no products of FP8 operands";
  constexpr std::int64_t kSizes[][3] = {{1, 1, 1}, {3, 5, 2}, {2, 1, 7}, {1, 9, 3}};
  for (const auto& size : kSizes) {
    for (const int unit : {16, step == 1 ? 11 : 32}) {
      for (int mode = 0; mode < 4; ++mode) {
        const Product p{size[0] * unit, size[1] * unit, size[2] * unit, (mode & 1) != 0, (mode & 2) != 0};
        for (const Types& types : kOperands) {
          for (const DType c_type : element_types()) {
            check(p, types, c_type, c_type, 0);
            if (c_type == DType::fp32) check(p, types, c_type, DType::bf16, 0);
            if (step == 1) check(p, types, c_type, c_type, 3);
          }
        }
      }
    }
  }
}

TEST(Fp8Gemm, RandomShapes) {
  const std::int64_t step = fp8_size_step();
  if (step == 0) GTEST_SKIP() << "no products of FP8 operands";
  const std::int64_t most = 200 / step;
  for (int i = 0; i < 8; ++i) {
    const Product p{random_integer(1, most) * step, random_integer(1, most) * step,
                    random_integer(1, most) * step, random_integer(0, 1) == 1, random_integer(0, 1) == 1};
    for (const Types& types : kOperands) check(p, types, DType::bf16, DType::bf16, 0);
  }
}

TEST(Fp8Gemm, EveryCodeIsRead) {
  if (fp8_size_step() == 0) GTEST_SKIP() << "no products of FP8 operands";
  for (const Types& types : kOperands) {
    for (const bool of_a : {true, false}) {
      // Each code once, in column row % 16, times one: nothing else is summed. NaN and infinities are left
      // out, for they would fill their rows.
      const DType type = of_a ? types.a : types.b;
      const Guarded codes(256, 16, type);
      for (int code = 0; code < 256; ++code) {
        const bool finite = std::isfinite(fp8_value(type, static_cast<std::uint8_t>(code)));
        for (int j = 0; j < 16; ++j) {
          codes.matrix().as<std::uint8_t>()[16 * code + j] =
              j == code % 16 && finite ? static_cast<std::uint8_t>(code) : 0;
        }
      }
      Guarded identity(16, 16, of_a ? types.b : types.a);
      identity.write(dense(16, 16, [](auto i, auto j) { return i == j ? 1 : 0; }));
      const Guarded c(of_a ? 256 : 16, of_a ? 16 : 256, DType::fp32);
      const Guarded one = number(1);
      operators().gemm({.a = of_a ? codes : identity,
                        .b = of_a ? identity : codes,
                        .c = c,
                        .b_transposed = true,
                        .a_inverse_scale = one,
                        .b_inverse_scale = one});
      const Dense values = codes.read();
      const Dense expected = dense(c.matrix().rows, c.matrix().cols,
                                   [&](auto i, auto j) { return of_a ? values(i, j) : values(j, i); });
      EXPECT_EQ(c.read().values, expected.values) << name_of(types.a) << "·" << name_of(types.b);
      EXPECT_TRUE(c.intact());
    }
  }
}

TEST(Fp8Gemm, NanStaysNan) {
  if (fp8_size_step() == 0) GTEST_SKIP() << "no products of FP8 operands";
  for (const Types& types : kOperands) {
    const Guarded a = random_matrix(16, 16, types.a);
    const Guarded b = random_matrix(16, 16, types.b);
    a.matrix().as<std::uint8_t>()[5 * 16 + 3] = 0x7F;
    const Guarded c(16, 16, DType::fp32);
    const Guarded one = number(1);
    operators().gemm(
        {.a = a, .b = b, .c = c, .b_transposed = true, .a_inverse_scale = one, .b_inverse_scale = one});
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = 0; j < 16; ++j) EXPECT_EQ(std::isnan(c.read()(i, j)), i == 5) << i << ", " << j;
    }
  }
}

TEST(Fp8Gemm, DisagreementsThrow) {
  const Guarded e4m3(16, 16, DType::fp8_e4m3);
  const Guarded e5m2(16, 16, DType::fp8_e5m2);
  const Guarded wide(16, 16, DType::bf16);
  const Guarded bias(1, 16, DType::fp32);
  const Guarded one = number(1);
  const Gemm good{
      .a = e4m3, .b = e5m2, .c = wide, .b_transposed = true, .a_inverse_scale = one, .b_inverse_scale = one};
  const auto refused = [&](const char* what, auto&& change) {
    Gemm gemm = good;
    change(gemm);
    EXPECT_THROW(operators().gemm(gemm), Error) << what;
  };
  refused("both E5M2", [&](Gemm& g) { g.a = e5m2; });
  refused("one wide operand", [&](Gemm& g) { g.a = wide; });
  refused("A transposed", [&](Gemm& g) { g.a_transposed = true; });
  refused("B not transposed", [&](Gemm& g) { g.b_transposed = false; });
  refused("no scale of A", [&](Gemm& g) { g.a_inverse_scale = {}; });
  refused("no scale of B", [&](Gemm& g) { g.b_inverse_scale = {}; });
  refused("a scale for each row", [&](Gemm& g) { g.a_inverse_scale = bias; });
  refused("8-bit C", [&](Gemm& g) { g.c = e4m3; });
  refused("bias not of C's type", [&](Gemm& g) { g.bias = bias; });
  refused("scales of wide operands", [&](Gemm& g) { g.a = g.b = wide; });
}

}  // namespace
}  // namespace plumbline::test
