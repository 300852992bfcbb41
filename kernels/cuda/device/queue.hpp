// Queue of kernels: a stream of one device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace plumbline::cuda {

struct Queue {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  std::size_t shared_bytes = 48 << 10;  // dynamic shared memory that a block can ask for
};

}  // namespace plumbline::cuda
