// Turns return codes of the CUDA runtime and of NCCL into errors that carry the call and the library's words.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace plumbline {

/// Throws Error "cudaMalloc: out of memory (CUDA error 2)" unless `code` is cudaSuccess; OutOfMemory when the
/// device has no memory left.
void check_cuda(cudaError_t code, const char* call);

/// NCCL's words for `code`, and its own last complaint about `comm` if it has one.
std::string nccl_words(ncclResult_t code, ncclComm_t comm);

/// Throws Error unless `code` is ncclSuccess.
void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm = nullptr);

/// True if kernels can use `data`: device or managed memory. Throws Error (CUDA).
bool on_device(const void* data);

}  // namespace plumbline
