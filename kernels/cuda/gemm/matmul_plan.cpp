#include "kernels/cuda/gemm/matmul_plan.hpp"

#include <string>

#include "core/base/error.hpp"

namespace plumbline::cuda {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
              cublasLtGetStatusString(status));
}

std::string words(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  const auto add = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    std::size_t written = 0;
    if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written) ==
        CUBLAS_STATUS_SUCCESS) {
      text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
    }
  };
  add("algorithm", CUBLASLT_ALGO_CONFIG_ID, std::int32_t{0});
  add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{0});
  add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t{0});
  add("split", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::uint32_t{0});
  add("scheme", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t{0});
  add("swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, std::uint32_t{0});
  add("custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, std::uint32_t{0});
  add("cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{0});
  return text;
}

}  // namespace plumbline::cuda
