// Device memory that goes over MPI: copies of a call's buffers in host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "core/run/collective.hpp"

namespace plumbline {

/// The host's copies of one call. They must stay where they are until MPI is done with them.
class HostCopies {
 public:
  /// Called repeatedly while the host waits for the device, which may itself wait for this host's MPI.
  using Meanwhile = std::function<void()>;

  /// `call` with its buffers in host memory; its input is there once `stream` has reached this point, which
  /// is waited for.
  Collective of(const Collective& call, cudaStream_t stream, const Meanwhile& meanwhile);
  PointToPoint of(const PointToPoint& message, cudaStream_t stream, const Meanwhile& meanwhile);
  /// The same without reading: for a call whose input is not there yet, fill() follows.
  Collective unread(const Collective& call);
  /// Nothing comes: the result of a reduce is the root's.
  void leave_output() { output_ = {}; }
  /// Reads the call's input. Waits for `stream`.
  void fill(cudaStream_t stream, const Meanwhile& meanwhile);
  /// Brings the result to the device. Waits for `stream`.
  void deliver(cudaStream_t stream, const Meanwhile& meanwhile) const;

 private:
  Matrix input_, output_;  // on the device; no data: nothing is read, or nothing comes
  std::vector<std::byte> read_, written_;
};

}  // namespace plumbline
