// Attention by cuDNN where it takes a shape (cudnn_slices.hpp) and the memory lies as it wants it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

class CudnnAttention {
 public:
  /// `wanted` false: takes nothing, and no library is loaded.
  CudnnAttention(int device, cudaStream_t stream, bool wanted)
      : device_(device), stream_(stream), tried_(!wanted) {}

  /// As Operators::attention_forward. False, and nothing is done, when the own kernels have to: another shape
  /// than cudnn_takes(), rows or heads off 16-byte boundaries, gaps in lse, a scratch that is too small, no
  /// cuDNN, or none of its kernels for this device. Which of them compute a call depends on shape, layout and
  /// device only. The first call of a shape takes seconds. Throws Error when a submission fails.
  bool forward(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
               const Matrix& out, const Matrix& lse, const Matrix& scratch);
  /// As Operators::attention_backward, slice after slice of backward_slice(); else as forward().
  bool backward(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                const Matrix& out, const Matrix& lse, const Matrix& dout, const Matrix& dq, const Matrix& dk,
                const Matrix& dv, const Matrix& scratch);

 private:
  CudnnPlan* plan(const CudnnGraph& graph);

  int device_;
  cudaStream_t stream_;
  bool tried_;  // to open the library
  std::unique_ptr<Cudnn> library_;
  /// A model has few shapes. nullptr: refused.
  std::vector<std::pair<CudnnGraph, std::unique_ptr<CudnnPlan>>> plans_;
};

}  // namespace plumbline::cuda
