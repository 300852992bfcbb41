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
  const Guarded half(4, 5, DType::fp16);
  const Guarded other(5, 3, DType::fp16);
  if (!has_fp16()) {
    EXPECT_THROW(operators().gemm({.a = half, .b = other, .c = c, .bias = {}}), Error);
  }
  const Guarded mixed(5, 3, DType::bf16);
  EXPECT_THROW(operators().gemm({.a = a, .b = mixed, .c = c, .bias = {}}), Error);
}

}  // namespace
}  // namespace plumbline::test
