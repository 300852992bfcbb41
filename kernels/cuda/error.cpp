// The error messages of CUDA calls.
#include "kernels/cuda/error.hpp"

#include <string>

#include "core/error.hpp"

namespace plumbline::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Error(std::string(call) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

}  // namespace plumbline::cuda
