// The search over cuBLASLt's configurations, on a fake cuBLASLt: no GPU.
#include "kernels/cuda/gemm/gemm_search.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/gemm/matmul.hpp"
#include "tests/kernels/cuda/fake_cublaslt.hpp"

namespace plumbline {
namespace {

struct Product {
  std::vector<float> a = std::vector<float>(64), b = std::vector<float>(64), c = std::vector<float>(64, 5);
  Gemm gemm() {
    Gemm gemm;
    gemm.a = Matrix(a.data(), 8, 8, DType::fp32);
    gemm.b = Matrix(b.data(), 8, 8, DType::fp32);
    gemm.c = Matrix(c.data(), 8, 8, DType::fp32);
    gemm.accumulate = true;
    return gemm;
  }
};

GemmSearchResult search(const GemmSearchLimits& limits, const GemmSearchProgress& progress = {}) {
  Product product;
  cuda::MatmulCache cache(nullptr, 0, GemmChoice::timed);
  const GemmSearchResult result = cache.search(product.gemm(), limits, progress);
  EXPECT_NE(test::FakeCublas::instance().product_target,
            static_cast<void*>(product.c.data()));  // C is unchanged
  return result;
}

TEST(GemmSearch, FindsWhatTheHeuristicDoesNotName) {
  const GemmSearchResult result = search({});
  EXPECT_NEAR(result.chosen.value, 0.081, 1e-4);
  EXPECT_NEAR(result.best.value, 0.040, 1e-4);
  EXPECT_NEAR(result.share(), 40.0 / 81, 1e-3);
  EXPECT_EQ(result.best_configuration,
            "algorithm 2, tile 20, stages 0, split 4, scheme 2, swizzle 0, custom 1, cluster 0");
  EXPECT_TRUE(result.complete);
  // Clusters 0 and 1. Algorithm 1: two tiles, two stages, two swizzles. Algorithm 2: one tile, custom 0 to 2,
  // no split or two schemes with eight factors, 32 needing too much workspace.
  EXPECT_EQ(result.accepted, 2 * (2 * 2 * 2 + 3 * (1 + 2 * 8)));
  EXPECT_EQ(result.timed, 2 * (2 * 2 * 2 + 2 * (1 + 2 * 8)));
}

TEST(GemmSearch, LimitsAreKeptAndSaid) {
  struct Case {
    const char* name;
    GemmSearchLimits limits;
    int most_timed;
  };
  const Case cases[] = {
      {"timed", {.timed = 3}, 3}, {"checked", {.configurations = 2}, 2}, {"time", {.time = {-1}}, 0}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const GemmSearchResult result = search(c.limits);
    EXPECT_FALSE(result.complete);
    EXPECT_LE(result.timed, c.most_timed);
    EXPECT_LE(result.best, result.chosen);
    EXPECT_GT(result.best.value, 0);
  }
  int& products = test::FakeCublas::instance().products;
  products = 0;
  search({.timed = 0});
  EXPECT_LT(products, 60);  // the choice itself, and its rounds
}

TEST(GemmSearch, DefaultsComeFirst) {
  // The first five have every option at its default: two tiles with two stages each, and algorithm 2.
  const GemmSearchResult result = search({.timed = 5});
  EXPECT_EQ(result.configurations, 5);
  EXPECT_EQ(result.timed, 5);
}

TEST(GemmSearch, ProgressIsTold) {
  int told = 0;
  search({}, [&](const GemmSearchResult& so_far) { told = so_far.timed; });
  EXPECT_EQ(told, 0);  // fewer than a hundred
}

}  // namespace
}  // namespace plumbline
