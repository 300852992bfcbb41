// Matrix products against plain double loops.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Product {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate, bias;
};

Dense reference(const Dense& a, const Dense& b, const Dense& c, const Dense& bias, const Product& p) {
  return dense(p.m, p.n, [&](std::int64_t i, std::int64_t j) {
    double sum = (p.accumulate ? c(i, j) : 0) + (p.bias ? bias(0, j) : 0);
    for (std::int64_t l = 0; l < p.k; ++l) {
      sum += (p.a_transposed ? a(l, i) : a(i, l)) * (p.b_transposed ? b(j, l) : b(l, j));
    }
    return sum;
  });
}

Dense sizes(const Guarded& x) {
  Dense result = x.read();
  for (double& value : result.values) value = std::abs(value);
  return result;
}

void check(const Product& p, DType type, DType c_type, std::int64_t gap) {
  const std::string what =
      fmt::format("{}x{}x{} aT{} bT{} acc{} bias{} {}->{} gap {}", p.m, p.n, p.k, p.a_transposed,
                  p.b_transposed, p.accumulate, p.bias, name_of(type), name_of(c_type), gap);
  const Guarded a = p.a_transposed ? random_matrix(p.k, p.m, type, gap) : random_matrix(p.m, p.k, type, gap);
  const Guarded b = p.b_transposed ? random_matrix(p.n, p.k, type, gap) : random_matrix(p.k, p.n, type, gap);
  const Guarded bias = random_matrix(1, p.n, type);
  const Guarded c = random_matrix(p.m, p.n, c_type, gap);
  const Dense expected = reference(a.read(), b.read(), c.read(), bias.read(), p);
  const Dense terms = reference(sizes(a), sizes(b), sizes(c), sizes(bias), p);
  operators().gemm({.a = a,
                    .b = b,
                    .c = c,
                    .a_transposed = p.a_transposed,
                    .b_transposed = p.b_transposed,
                    .accumulate = p.accumulate,
                    .bias = p.bias ? bias.matrix() : Matrix{}});
  expect_close(c, expected, tolerance(c_type), what, terms);
}

TEST(Gemm, EveryLayoutTypeAndMode) {
  constexpr std::int64_t kSizes[][3] = {{1, 1, 1},     {5, 7, 3},    {33, 17, 65},
                                        {64, 96, 128}, {130, 1, 40}, {1, 70, 33}};
  for (const auto& size : kSizes) {
    for (int mode = 0; mode < 16; ++mode) {
      const Product p{size[0],         size[1],         size[2],        (mode & 1) != 0,
                      (mode & 2) != 0, (mode & 4) != 0, (mode & 8) != 0};
      for (const std::int64_t gap : {0, 3}) {
        for (const DType type : element_types()) {
          check(p, type, type, gap);
          if (type != DType::fp32) check(p, type, DType::fp32, gap);
        }
      }
    }
  }
}

TEST(Gemm, OddSumsOnMatrixUnits) {
  // oneDNN 2.6 executes an illegal instruction for these as they are, on processors with AMX.
  constexpr std::int64_t kSizes[][3] = {{69, 1, 63}, {41, 321, 63}, {129, 17, 2335}, {324, 4, 1599}};
  for (const auto& size : kSizes) {
    for (int layout = 0; layout < 4; ++layout) {
      const Product p{size[0], size[1], size[2], (layout & 1) != 0, (layout & 2) != 0, false, layout == 3};
      check(p, DType::bf16, layout == 0 ? DType::bf16 : DType::fp32, 0);
    }
  }
}

/// dW += dyᵀ·x and db += column sums of dy, twice: backends may do every other call, or the first,
/// differently.
void check_bias_gradient(std::int64_t tokens, std::int64_t out, std::int64_t in, DType type, DType c_type,
                         DType bias_type, std::int64_t gap) {
  const Guarded dy = random_matrix(tokens, out, type, gap);
  const Guarded x = random_matrix(tokens, in, type, gap);
  const Guarded dw = random_matrix(out, in, c_type, gap);
  const Guarded db = random_matrix(1, out, bias_type);
  for (const char* call : {"first", "second"}) {
    const std::string what = fmt::format("{} bias gradient {}x{}x{} {}->{}, {} gap {}", call, tokens, out, in,
                                         name_of(type), name_of(c_type), name_of(bias_type), gap);
    const Product p{out, in, tokens, true, false, true, false};
    const Dense none(1, in);
    const Dense weights = reference(dy.read(), x.read(), dw.read(), none, p);
    const Dense terms = reference(sizes(dy), sizes(x), sizes(dw), none, p);
    const auto column_sums = [&](const Dense& of, const Dense& before) {
      return dense(1, out, [&](auto, auto j) {
        double sum = before(0, j);
        for (std::int64_t t = 0; t < tokens; ++t) sum += of(t, j);
        return sum;
      });
    };
    const Dense bias = column_sums(dy.read(), db.read());
    const Dense bias_terms = column_sums(sizes(dy), sizes(db));
    operators().gemm(
        {.a = dy, .b = x, .c = dw, .a_transposed = true, .accumulate = true, .bias_gradient = db});
    expect_close(dw, weights, tolerance(c_type), what + " weights", terms);
    expect_close(db, bias, tolerance(bias_type), what, bias_terms);
  }
}

TEST(Gemm, BiasGradientAlongsideAWeightGradient) {
  constexpr std::int64_t kSizes[][3] = {{1, 1, 1},     {3, 5, 7},    {65, 33, 17},
                                        {128, 96, 64}, {40, 1, 130}, {33, 70, 1}};
  for (const auto& size : kSizes) {
    for (const std::int64_t gap : {0, 3}) {
      for (const DType type : element_types()) {
        check_bias_gradient(size[0], size[1], size[2], type, DType::fp32, DType::fp32, gap);
        check_bias_gradient(size[0], size[1], size[2], type, type, type, gap);
        check_bias_gradient(size[0], size[1], size[2], type, DType::fp32, type, gap);
      }
    }
  }
  const Guarded dy = random_matrix(6, 4, DType::fp32);
  const Guarded x = random_matrix(6, 3, DType::fp32);
  const Guarded dw = random_matrix(4, 3, DType::fp32);
  const Guarded db = random_matrix(1, 4, DType::fp32);
  const Guarded narrow = random_matrix(1, 3, DType::fp32);
  const Dense before = db.read();
  // No columns of x, or no tokens.
  const Guarded no_columns(6, 0, DType::fp32);
  const Guarded no_weights(4, 0, DType::fp32);
  const Guarded sums = random_matrix(1, 4, DType::fp32);
  Dense expected = sums.read();
  for (std::int64_t t = 0; t < 6; ++t)
    for (std::int64_t j = 0; j < 4; ++j) expected(0, j) += dy.read()(t, j);
  operators().gemm({.a = dy, .b = no_columns, .c = no_weights, .a_transposed = true, .bias_gradient = sums});
  expect_close(sums, expected, tolerance(DType::fp32), "no columns");
  const Guarded no_dy(0, 4, DType::fp32);
  const Guarded no_x(0, 3, DType::fp32);
  operators().gemm(
      {.a = no_dy, .b = no_x, .c = dw, .a_transposed = true, .accumulate = true, .bias_gradient = db});
  expect_close(db, before, 0, "no tokens");
  EXPECT_THROW(operators().gemm({.a = dy, .b = x, .c = dw, .a_transposed = true, .bias_gradient = narrow}),
               Error);
  const Guarded square = random_matrix(4, 4, DType::fp32);
  EXPECT_THROW(operators().gemm({.a = square, .b = square, .c = square, .bias_gradient = db}), Error);
}

TEST(Gemm, RandomShapes) {
  for (int i = 0; i < 20; ++i) {
    const Product p{random_integer(1, 150),    random_integer(1, 150),    random_integer(1, 150),
                    random_integer(0, 1) == 1, random_integer(0, 1) == 1, random_integer(0, 1) == 1,
                    random_integer(0, 1) == 1};
    for (const DType type : element_types()) check(p, type, DType::fp32, random_integer(0, 2));
  }
}

TEST(Gemm, EmptySidesAreNoWorkOrAnEmptySum) {
  const Guarded a(0, 4, DType::fp32);
  const Guarded b = random_matrix(4, 3, DType::fp32);
  const Guarded none(0, 3, DType::fp32);
  EXPECT_NO_THROW(operators().gemm({.a = a, .b = b, .c = none, .bias = {}}));
  // A weight gradient over no tokens: k = 0.
  const Guarded tokens(0, 3, DType::fp32);
  const Guarded c = random_matrix(4, 3, DType::fp32);
  const Dense before = c.read();
  operators().gemm({.a = a, .b = tokens, .c = c, .a_transposed = true, .accumulate = true, .bias = {}});
  expect_close(c, before, 0, "accumulate nothing");
  operators().gemm({.a = a, .b = tokens, .c = c, .a_transposed = true, .bias = {}});
  expect_close(c, Dense(4, 3), 0, "overwrite with an empty sum");
}

TEST(Gemm, SameBitsEveryTime) {
  for (const DType type : element_types()) {
    const Guarded a = random_matrix(100, 300, type);
    const Guarded b = random_matrix(70, 300, type);
    const Guarded first(100, 70, type);
    const Guarded second(100, 70, type);
    operators().gemm({.a = a, .b = b, .c = first, .b_transposed = true, .bias = {}});
    make_operators()->gemm({.a = a, .b = b, .c = second, .b_transposed = true, .bias = {}});
    EXPECT_EQ(first.bytes(), second.bytes());
  }
}

TEST(Gemm, DisagreementNamesShapes) {
  const Guarded a(4, 5, DType::fp32);
  const Guarded b(6, 3, DType::fp32);
  const Guarded c(4, 3, DType::fp32);
  try {
    operators().gemm({.a = a, .b = b, .c = c, .bias = {}});
    FAIL() << "a 4x5 by 6x3 product was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("A 4x5 fp32, B 6x3 fp32"), std::string::npos) << error.what();
  }
  const Guarded mixed(5, 3, DType::bf16);
  EXPECT_THROW(operators().gemm({.a = a, .b = mixed, .c = c, .bias = {}}), Error);
}

}  // namespace
}  // namespace plumbline::test
