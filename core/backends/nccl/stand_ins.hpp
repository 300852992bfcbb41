// Numbers in place of those that another rank would send.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "core/tensor/matrix.hpp"

namespace plumbline {

/// Random numbers of magnitude 0.5 and 1, so that a router deals rows of them out to its experts evenly;
/// zeros for whole numbers. They repeat after 512 KiB.
class StandIns {
 public:
  /// Puts copies into the stream that fill `x`, on the device. Throws Error of CUDA.
  void fill(const Matrix& x, cudaStream_t stream);

 private:
  struct Pattern {
    std::vector<std::byte> host;  // read by a copy in the stream
    std::shared_ptr<void> device;
  };
  const Pattern& pattern_of(DType type, cudaStream_t stream);

  std::map<DType, Pattern> patterns_;
};

}  // namespace plumbline
