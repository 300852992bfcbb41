// A fake cuBLASLt and CUDA runtime.
#include "tests/kernels/cuda/fake_cublaslt.hpp"

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/gemm/matmul.hpp"

namespace plumbline {

void* cuda_stream(Operators& /*operators*/) {
  return nullptr;
}

namespace test {

FakeCublas& FakeCublas::instance() {
  static FakeCublas one;
  return one;
}

}  // namespace test
}  // namespace plumbline

namespace {

using plumbline::test::FakeCublas;
FakeCublas& state = FakeCublas::instance();

/// Content of cublasLtMatmulAlgo_t in the fake library.
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

FakeCublas::Attributes& attributes_of(cublasLtMatmulDesc_t operation) {
  return *reinterpret_cast<FakeCublas::Attributes*>(operation);
}
FakeCublas::Layout& layout_of(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<FakeCublas::Layout*>(layout);
}
bool sums_columns(cublasLtMatmulDesc_t operation) {
  const auto found = attributes_of(operation).find(CUBLASLT_MATMUL_DESC_EPILOGUE);
  if (found == attributes_of(operation).end()) return false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::memcpy(&epilogue, found->second.data(), sizeof epilogue);
  return epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

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
  return "fake";
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
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
  *reinterpret_cast<float*>(event) = state.clock_ms;
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
  return "fake";
}
/// An operation is its attributes.
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t,
                                        cudaDataType_t) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new FakeCublas::Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete &attributes_of(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t which, const void* value,
                                              std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(value);
  attributes_of(operation)[which].assign(bytes, bytes + size);
  return CUBLAS_STATUS_SUCCESS;
}
/// A layout is the number of its columns, and its batch.
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType, std::uint64_t,
                                          std::uint64_t cols, std::int64_t) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new FakeCublas::Layout{cols, 1, 0});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &layout_of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, const void* value,
                                                std::size_t size) {
  FakeCublas::Layout& of = layout_of(layout);
  const auto take = [&](auto& member) {
    if (size != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  if (which == CUBLASLT_MATRIX_LAYOUT_COLS) return take(of.cols);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(of.batch);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(of.step);
  return CUBLAS_STATUS_INVALID_VALUE;
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
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  ++state.questions;
  *count = 0;
  if (!state.knows_bias_gradients && sums_columns(operation)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 2; ++i) {
    found[i] = {};
    found[i].state = CUBLAS_STATUS_SUCCESS;
  }
  store({.id = 1, .tile = 10, .stages = 1}, found[0].algo);
  store({.id = 2, .tile = 20}, found[1].algo);
  *count = 2;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
                                        cudaDataType_t a, cudaDataType_t b, cudaDataType_t, cudaDataType_t,
                                        int, int ids[], int* count) {
  state.a_type = a;
  state.b_type = b;
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
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void*, cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t b,
                              const void*, const void*, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm, void*,
                              std::size_t, cudaStream_t) {
  const Config c = config_of(*algorithm);
  if (state.refusals > 0) {
    --state.refusals;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  state.layouts_of_product = {layout_of(a), layout_of(b), layout_of(c_layout)};
  state.factor_of_product = *static_cast<const float*>(alpha);
  if (c.custom == 2) return CUBLAS_STATUS_EXECUTION_FAILED;  // accepted, and yet it does not run
  state.clock_ms += milliseconds(c) + (sums_columns(operation) ? state.bias_gradient_ms : 0);
  state.product_target = d;
  state.attributes_of_product = attributes_of(operation);
  ++state.products;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
