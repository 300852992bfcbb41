// The error messages of CUDA calls.
#include "kernels/cuda/device/error.hpp"

#include <string>

#include "core/base/error.hpp"

namespace plumbline::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string line =
      std::string(call) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(line);
  throw Error(line);
}

}  // namespace plumbline::cuda
