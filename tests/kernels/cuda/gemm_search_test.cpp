// The search over cuBLASLt's configurations, on a pretended cuBLASLt with two algorithms whose times are
// known, and on a clock that only products move: no GPU.
#include "kernels/cuda/gemm_search.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cuda/matmul.hpp"

namespace {

/// What the pretended library keeps in cublasLtMatmulAlgo_t.
struct Config {
  std::int32_t id = 0;
  std::uint32_t tile = 0, stages = 0, split = 1, scheme = 0, swizzle = 0, custom = 0;
  std::uint16_t cluster = 0;
};
static_assert(sizeof(Config) <= sizeof(cublasLtMatmulAlgo_t));

Config config_of(const cublasLtMatmulAlgo_t& algorithm) {
  Config config;
  std::memcpy(static_cast<void*>(&config), &algorithm, sizeof config);
  return config;
}
void store(const Config& config, cublasLtMatmulAlgo_t& algorithm) {
  algorithm = {};
  std::memcpy(&algorithm, &config, sizeof config);
}

float clock_ms = 0;
void* product_target = nullptr;  // where the last product was written
int products = 0;

/// The fastest is an odd one of algorithm 2 that the heuristic does not name.
float milliseconds(const Config& c) {
  if (c.id == 1) return c.tile == 10 ? 100.0F : 90.0F;
  if (c.split == 4 && c.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE && c.custom == 1) return 40;
  return 80 + static_cast<float>(c.split);
}

bool accepted(const Config& c) {
  if (c.cluster > 1) return false;
  if (c.id == 1) return (c.tile == 10 || c.tile == 11) && (c.stages == 1 || c.stages == 2) && c.split == 1;
  return c.tile == 20 && c.stages == 0;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "error";
}
const char* cudaGetErrorString(cudaError_t) {
  return "pretended";
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new float(0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<float*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *reinterpret_cast<float*>(event) = clock_ms;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = *reinterpret_cast<float*>(end) - *reinterpret_cast<float*>(begin);
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t) {
  return "status";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
  return "pretended";
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                              const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t*, cudaDataType, std::uint64_t, std::uint64_t,
                                          std::int64_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void*,
                                                    std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
/// Names two: 100 and 81 ms.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  for (int i = 0; i < 2; ++i) {
    found[i] = {};
    found[i].state = CUBLAS_STATUS_SUCCESS;
  }
  store({.id = 1, .tile = 10, .stages = 1}, found[0].algo);
  store({.id = 2, .tile = 20}, found[1].algo);
  *count = 2;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int, int ids[],
                                        int* count) {
  for (int i = 0; i < 3; ++i) ids[i] = i + 1;
  *count = 3;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (id == 3) return CUBLAS_STATUS_NOT_SUPPORTED;  // for other types
  store({.id = id}, *algorithm);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void* out,
                                                 std::size_t size, std::size_t* written) {
  const int id = config_of(*algorithm).id;
  const auto list = [&](const std::vector<std::uint32_t>& ids) {
    *written = ids.size() * sizeof ids[0];
    if (size == 0) return CUBLAS_STATUS_SUCCESS;
    if (size < *written) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(out, ids.data(), *written);
    return CUBLAS_STATUS_SUCCESS;
  };
  const auto number = [&](std::uint32_t value) {
    std::memcpy(out, &value, sizeof value);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_ALGO_CAP_TILE_IDS:
      return list(id == 1 ? std::vector<std::uint32_t>{10, 11} : std::vector<std::uint32_t>{20});
    case CUBLASLT_ALGO_CAP_STAGES_IDS:
      return id == 1 ? list({1, 2}) : CUBLAS_STATUS_INVALID_VALUE;
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
      return number(id == 2 ? 1 : 0);
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
      return number(CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
      return number(id == 1 ? 1 : 0);
    case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
      return number(id == 2 ? 2 : 0);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  Config c = config_of(*algorithm);
  void* const members[] = {&c.id,     &c.tile,   &c.split, &c.scheme, &c.swizzle,
                           &c.custom, &c.stages, nullptr,  &c.cluster};
  std::memcpy(members[attribute], value, size);
  store(c, *algorithm);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t size, std::size_t* written) {
  const Config c = config_of(*algorithm);
  const void* const members[] = {&c.id,     &c.tile,   &c.split, &c.scheme, &c.swizzle,
                                 &c.custom, &c.stages, nullptr,  &c.cluster};
  std::memcpy(value, members[attribute], size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Config c = config_of(*algorithm);
  if (!accepted(c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = std::size_t{c.split} * (std::size_t{2} << 20);  // 64 MiB for the largest
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*,
                              const void*, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t, cudaStream_t) {
  const Config c = config_of(*algorithm);
  if (c.custom == 2) return CUBLAS_STATUS_EXECUTION_FAILED;  // accepted, and yet it does not run
  clock_ms += milliseconds(c);
  product_target = d;
  ++products;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

namespace plumbline {

void* cuda_stream(Operators& /*operators*/) {
  return nullptr;
}

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
  EXPECT_NE(product_target, static_cast<void*>(product.c.data()));  // C stays as it was
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
