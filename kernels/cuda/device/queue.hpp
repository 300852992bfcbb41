// Queue of kernels: a stream of one device.
#pragma once

#include <cuda_runtime_api.h>

namespace plumbline::cuda {

struct Queue {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

}  // namespace plumbline::cuda
