#include "kernels/cuda/gemm/matmul_plan.hpp"

#include <string>

#include "core/base/error.hpp"

namespace plumbline::cuda {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
              cublasLtGetStatusString(status));
}

}  // namespace plumbline::cuda
