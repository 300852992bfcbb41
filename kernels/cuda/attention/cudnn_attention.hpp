// Attention by cuDNN where it takes a shape (cudnn_slices.hpp) and the memory lies as it wants it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/choice.hpp"
#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

class CudnnAttention {
 public:
  /// `wanted` false: takes nothing, and no library is loaded.
  CudnnAttention(int device, cudaStream_t stream, bool wanted)
      : device_(device), stream_(stream), tried_(!wanted) {
    if (!wanted) why_no_library_ = "not asked for";
  }

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

  /// Who computed each kind of call so far, in the order of their first calls.
  std::vector<KernelChoice> choices() const;

 private:
  struct Call {
    AttentionShape shape;
    DType type = DType::bf16;
    bool backward = false;
  };
  struct Plan {
    CudnnGraph graph;
    std::unique_ptr<CudnnPlan> plan;  // nullptr: refused
    std::string why;
  };

  /// nullptr when cuDNN does not do it, and then `why` says so.
  CudnnPlan* plan(const CudnnGraph& graph, std::string& why);
  /// The plan and a place in `scratch` for its workspace.
  CudnnPlan* plan_in(const CudnnGraph& graph, const Matrix& scratch, void*& workspace, std::string& why);
  /// Remembers a call's first choice; true: cuDNN's.
  bool note(const Call& call, const std::string& why);

  int device_;
  cudaStream_t stream_;
  bool tried_;  // to open the library
  std::unique_ptr<Cudnn> library_;
  std::string why_no_library_;
  std::vector<Plan> plans_;  // a model has few shapes
  std::vector<std::pair<Call, std::string>> noted_;
};

}  // namespace plumbline::cuda
