// Turns the status of every CUDA call into Error with the call's text and the library's words.
#pragma once

#include <cuda_runtime_api.h>

namespace plumbline::cuda {

/// Throws Error "cudaMallocAsync(...): cudaErrorMemoryAllocation: out of memory" unless `status` is success;
/// OutOfMemory when the device has no memory left.
void check(cudaError_t status, const char* call);

}  // namespace plumbline::cuda

#define PLUMBLINE_CUDA(call) ::plumbline::cuda::check((call), #call)
