// cuBLASLt's settings for products of FP8 operands and of experts, on a fake cuBLASLt: no GPU.
#include "kernels/cuda/gemm/matmul.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/fake_cublaslt.hpp"

namespace plumbline {
namespace {

test::FakeCublas& cublas = test::FakeCublas::instance();

std::vector<std::uint64_t> cols_of_product() {
  std::vector<std::uint64_t> cols;
  for (const test::FakeCublas::Layout& layout : cublas.layouts_of_product) cols.push_back(layout.cols);
  return cols;
}

/// A product of FP8 operands, whose addresses and types alone matter here.
struct Fp8Product {
  std::vector<unsigned char> a = std::vector<unsigned char>(256), b = std::vector<unsigned char>(256);
  std::vector<float> c = std::vector<float>(256);
  alignas(16) float scales[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  Gemm gemm(DType a_dtype, DType b_dtype) {
    Gemm gemm;
    gemm.a = Matrix(a.data(), 16, 16, a_dtype);
    gemm.b = Matrix(b.data(), 16, 16, b_dtype);
    gemm.c = Matrix(c.data(), 16, 16, DType::fp32);
    gemm.b_transposed = true;
    gemm.a_inverse_scale = Matrix(&scales[0], 1, 1, DType::fp32);
    gemm.b_inverse_scale = Matrix(&scales[4], 1, 1, DType::fp32);
    return gemm;
  }
};

TEST(Fp8Products, AreTransposedThenNotAndHaveTheScalesOfTheCall) {
  Fp8Product product;
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::first);
  Gemm gemm = product.gemm(DType::fp8_e5m2, DType::fp8_e4m3);
  for (int call = 0; call < 2; ++call) {  // the second finds its plan and has other scales
    cache.run(gemm);
    // cuBLASLt's first operand is our second.
    EXPECT_EQ(cublas.attribute<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
    EXPECT_EQ(cublas.attribute<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
    EXPECT_EQ(cublas.attribute<void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), gemm.b_inverse_scale.data);
    EXPECT_EQ(cublas.attribute<void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER), gemm.a_inverse_scale.data);
    gemm.a_inverse_scale.data = &product.scales[8];
    gemm.b_inverse_scale.data = &product.scales[12];
  }
  cache.search(gemm, {}, {});
  EXPECT_EQ(cublas.a_type, CUDA_R_8F_E4M3);
  EXPECT_EQ(cublas.b_type, CUDA_R_8F_E5M2);
}

TEST(Fp8Products, HaveScalesOnSixteenBytes) {
  Fp8Product product;
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::timed);
  Gemm gemm = product.gemm(DType::fp8_e4m3, DType::fp8_e4m3);
  for (const auto& [a, b] : {std::pair(0, 1), {3, 4}, {5, 6}, {9, 2}}) {
    gemm.a_inverse_scale.data = &product.scales[a];
    gemm.b_inverse_scale.data = &product.scales[b];
    cache.run(gemm);
    const auto* first = cublas.attribute<const float*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
    const auto* second = cublas.attribute<const float*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 16, 0U) << a << " " << b;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 16, 0U) << a << " " << b;
    EXPECT_EQ(*first, product.scales[b]);
    EXPECT_EQ(*second, product.scales[a]);
  }
}

TEST(Fp8Products, SumFastInTheForwardOnly) {
  struct Case {
    const char* name;
    DType a, b;
    bool accumulate, fast;
  };
  constexpr DType kE4m3 = DType::fp8_e4m3;
  constexpr DType kE5m2 = DType::fp8_e5m2;
  const Case cases[] = {{"forward", kE4m3, kE4m3, false, true},
                        {"input gradient", kE5m2, kE4m3, false, false},
                        {"weight gradient", kE5m2, kE4m3, true, false},
                        {"weight gradient in E4M3", kE4m3, kE4m3, true, false}};
  Fp8Product product;
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::first);
  for (const Case& c : cases) {
    Gemm gemm = product.gemm(c.a, c.b);
    gemm.accumulate = c.accumulate;
    cache.run(gemm);
    EXPECT_EQ(cublas.attribute<std::int8_t>(CUBLASLT_MATMUL_DESC_FAST_ACCUM), c.fast ? 1 : 0) << c.name;
  }
  std::vector<float> wide(64);
  const Matrix square(wide.data(), 8, 8, DType::fp32);
  cache.run({.a = square, .b = square, .c = Matrix(product.c.data(), 8, 8, DType::fp32)});
  EXPECT_EQ(cublas.attributes_of_product.count(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), 0U);
}

TEST(Products, CountOnTheMultiprocessorsThatAreLeft) {
  std::vector<float> data(192);
  const auto square = [&](int i) { return Matrix(data.data() + i * 64, 8, 8, DType::fp32); };
  const Gemm gemm{.a = square(0), .b = square(1), .c = square(2)};
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::first);
  cache.run(gemm);
  EXPECT_EQ(cublas.attributes_of_product.count(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 0U);
  cache.count_on(100);
  cache.run(gemm);
  EXPECT_EQ(cublas.attribute<std::int32_t>(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 100);
  std::vector<std::string> said;
  for (const KernelChoice& choice : cache.choices()) said.push_back(choice.call + ": " + choice.by);
  EXPECT_THAT(said, testing::UnorderedElementsAre(
                        testing::StartsWith("gemm 8x8x8 fp32 by fp32 to fp32 strides 8, 8, 8: algorithm "),
                        testing::EndsWith(", for 100 multiprocessors")));
}

/// Numbers of expert rows change in every step: nothing is timed for them, and the heuristic is asked once
/// per similar number.
TEST(Products, OfRowsThatVaryKeepWhatIsChosenForAboutAsMany) {
  std::vector<float> data(3 * 1024 * 8);
  const auto matrix = [&](int i, std::int64_t rows) {
    return Matrix(data.data() + i * 1024 * 8, rows, 8, DType::fp32);
  };
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::timed);
  struct Case {
    std::int64_t rows;
    int questions;  // so far
  };
  const int products = cublas.products;
  const int questions = cublas.questions;
  int calls = 0;
  for (const Case& c :
       {Case{700, 1}, {641, 1}, {768, 1}, {769, 2}, {896, 2}, {640, 3}, {1, 4}, {7, 5}, {1, 5}}) {
    cache.run({.a = matrix(0, c.rows), .b = matrix(1, 8), .c = matrix(2, c.rows), .rows_vary = true});
    EXPECT_EQ(cublas.questions - questions, c.questions) << c.rows;
    EXPECT_EQ(cublas.products - products, ++calls);
    const auto rows = static_cast<std::uint64_t>(c.rows);
    // cuBLASLt's first operand is our second.
    EXPECT_THAT(cols_of_product(), testing::ElementsAre(8, rows, rows));
  }
  const auto weight_gradient = [&](std::int64_t rows) {
    cache.run({.a = matrix(0, rows),
               .b = matrix(1, rows),
               .c = matrix(2, 8),
               .a_transposed = true,
               .accumulate = true,
               .rows_vary = true});
    const auto sum = static_cast<std::uint64_t>(rows);
    EXPECT_THAT(cols_of_product(), testing::ElementsAre(sum, sum, 8));
  };
  weight_gradient(700);
  weight_gradient(690);
  EXPECT_EQ(cublas.questions - questions, 6);
  // A refusal for fewer rows leads to one query for exactly these.
  cublas.refusals = 1;
  weight_gradient(680);
  EXPECT_EQ(cublas.questions - questions, 7);
  weight_gradient(670);
  EXPECT_EQ(cublas.questions - questions, 7);
}

/// A weight gradient whose column sums go to memory of their own.
struct WeightGradient {
  std::vector<float> data = std::vector<float>(4 * 1024);
  Gemm gemm(std::int64_t tokens) {
    Gemm gemm{.a = Matrix(data.data(), tokens, 8, DType::fp32),
              .b = Matrix(data.data() + 1024, tokens, 16, DType::fp32),
              .c = Matrix(data.data() + 2048, 8, 16, DType::fp32),
              .a_transposed = true,
              .accumulate = true};
    gemm.bias_gradient = Matrix(data.data() + 3072, 1, 8, DType::fp32);
    return gemm;
  }
};

std::vector<std::string> told(const cuda::MatmulCache& cache) {
  std::vector<std::string> said;
  for (const KernelChoice& choice : cache.choices())
    said.push_back(choice.call + ": " + choice.by + "; " + choice.why);
  return said;
}

TEST(Products, SumTheColumnsOfAInTheEpilogue) {
  WeightGradient weights;
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::first);
  const int products = cublas.products;
  int apart = 0;
  Gemm gemm = weights.gemm(8);
  for (int call = 1; call <= 2; ++call) {  // the second finds its plan and writes elsewhere
    EXPECT_TRUE(cache.run_with_column_sums(gemm, [&] { ++apart; }));
    EXPECT_EQ(cublas.products - products, call);
    // The column sums of its second operand, our first, into numbers of the result's type.
    EXPECT_EQ(cublas.attribute<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_BGRADB);
    EXPECT_EQ(cublas.attribute<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE), CUDA_R_32F);
    EXPECT_EQ(cublas.attribute<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER), gemm.bias_gradient.data);
    EXPECT_EQ(cublas.attribute<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_T);
    gemm.bias_gradient.data = weights.data.data() + 3080;
  }
  EXPECT_EQ(apart, 0);  // nothing is timed
  gemm.bias_gradient = Matrix();
  cache.run(gemm);
  EXPECT_EQ(cublas.attributes_of_product.count(CUBLASLT_MATMUL_DESC_EPILOGUE), 0U);
  EXPECT_THAT(told(cache),
              testing::UnorderedElementsAre(testing::HasSubstr("16, 16: algorithm"),
                                            testing::HasSubstr("with column sums of A: algorithm")));
}

TEST(Products, SumColumnsApartWhereCublasHasNoSuchProduct) {
  WeightGradient weights;
  cublas.knows_bias_gradients = false;
  for (const GemmChoice choice : {GemmChoice::first, GemmChoice::timed}) {
    cuda::MatmulCache cache(nullptr, 0, choice);
    const int products = cublas.products;
    const int questions = cublas.questions;
    for (int call = 0; call < 2; ++call) EXPECT_FALSE(cache.run_with_column_sums(weights.gemm(16), [] {}));
    EXPECT_EQ(cublas.products, products);
    EXPECT_LE(cublas.questions - questions, 1);  // it is asked once in a process
    EXPECT_THAT(told(cache),
                testing::ElementsAre(testing::AllOf(
                    testing::HasSubstr("with column sums of A: a product and column sums apart; "),
                    testing::HasSubstr("cuBLASLt has no algorithm"))));
  }
  cublas.knows_bias_gradients = true;
}

/// The best product takes 81 ms.
TEST(Products, SumColumnsInTheFasterOfBothWays) {
  struct Case {
    std::int64_t tokens;  // of every case others, since a process remembers
    float epilogue_ms, apart_ms;
    bool at_once;
  };
  for (const Case& c : {Case{24, 5, 6, true}, {32, 7, 6, false}, {40, 0, 1, true}}) {
    WeightGradient weights;
    const Gemm gemm = weights.gemm(c.tokens);
    cublas.bias_gradient_ms = c.epilogue_ms;
    for (int object = 0; object < 2; ++object) {
      cuda::MatmulCache cache(nullptr, 0, GemmChoice::timed);
      int apart = 0;
      const auto sums = [&] {
        ++apart;
        cublas.clock_ms += c.apart_ms;
      };
      cublas.product_target = nullptr;
      for (int call = 0; call < 2; ++call) {
        EXPECT_EQ(cache.run_with_column_sums(gemm, sums), c.at_once) << c.tokens;
        // The trial wrote elsewhere.
        EXPECT_EQ(cublas.product_target == gemm.c.data, c.at_once) << c.tokens;
      }
      EXPECT_EQ(apart > 0, object == 0) << c.tokens;
      EXPECT_THAT(told(cache),
                  testing::Contains(testing::HasSubstr(c.at_once ? "sums of A: algorithm 2" : "slower, ")))
          << c.tokens;
    }
  }
  cublas.bias_gradient_ms = 0;
}

TEST(Products, OfABatchHaveTheirMatricesStepsApart) {
  std::vector<float> memory(1024);
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::timed);
  const Gemm gemm{.a = Matrix(memory.data(), 4, 8, 32, DType::fp32),
                  .b = Matrix(memory.data() + 8, 4, 8, 32, DType::fp32),
                  .c = Matrix(memory.data() + 512, 4, 4, DType::fp32),
                  .b_transposed = true};
  cache.run(gemm, {.count = 3, .a_step = 8, .b_step = 16, .c_step = 17, .factor = 0.5F});
  using Layout = test::FakeCublas::Layout;
  EXPECT_THAT(cublas.layouts_of_product,
              testing::ElementsAre(Layout{4, 3, 16}, Layout{4, 3, 8}, Layout{4, 3, 17}));
  EXPECT_EQ(cublas.factor_of_product, 0.5F);
  cache.run(gemm);  // another plan
  EXPECT_THAT(cublas.layouts_of_product,
              testing::ElementsAre(Layout{4, 1, 0}, Layout{4, 1, 0}, Layout{4, 1, 0}));
  EXPECT_EQ(cublas.factor_of_product, 1);
}

}  // namespace
}  // namespace plumbline
