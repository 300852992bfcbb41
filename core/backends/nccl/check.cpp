#include "core/backends/nccl/check.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  const std::string line =
      fmt::format("{}: {} (CUDA error {})", call, cudaGetErrorString(code), static_cast<int>(code));
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(line);
  throw Error(line);
}

std::string nccl_words(ncclResult_t code, ncclComm_t comm) {
  std::string text = fmt::format("{} (NCCL error {})", ncclGetErrorString(code), static_cast<int>(code));
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += fmt::format(": {}", last);
  return text;
}

void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess) return;
  throw Error(fmt::format("{}: {}", call, nccl_words(code, comm)));
}

bool on_device(const void* data) {
  cudaPointerAttributes found{};
  check_cuda(cudaPointerGetAttributes(&found, data), "cudaPointerGetAttributes");
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
}

}  // namespace plumbline
