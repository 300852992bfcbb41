// Attention by cuDNN where it takes a shape (cudnn_slices.hpp) and the memory has the layout it needs.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/choice.hpp"
#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/device/queue.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

class CudnnAttention {
 public:
  /// `wanted` false: takes nothing, and loads no library. `deterministic`: backwards give the same bits every
  /// time.
  CudnnAttention(int device, const Queue& queue, bool wanted, bool deterministic)
      : device_(device), queue_(queue), deterministic_(deterministic), tried_(!wanted) {
    if (!wanted) why_no_library_ = "not asked for";
  }

  /// As Operators::attention_forward. Returns false, and does nothing, when the own kernels must run.
  /// Reasons: a shape outside cudnn_takes(), rows or heads off 16-byte boundaries, gaps in lse, a scratch
  /// that is too small, no cuDNN, no kernel for this device. The choice depends on shape, layout and device
  /// only. The first call of a shape takes seconds. Throws Error when a submission fails.
  bool forward(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
               const Matrix& out, const Matrix& lse, const Matrix& scratch);
  /// As Operators::attention_backward, slice after slice of backward_slice(); else as forward().
  bool backward(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                const Matrix& out, const Matrix& lse, const Matrix& dout, const Matrix& dq, const Matrix& dk,
                const Matrix& dv, const Matrix& scratch);

  bool deterministic() const { return deterministic_; }

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

  /// First sequence and key/value head of a slice.
  struct HeadPlace {
    std::int64_t sequence = 0;
    std::int64_t kv_head = 0;
  };

  /// Some of a key/value head's query heads after the others, then the sum of their results in `parts`, keys'
  /// then values'.
  void run_in_parts(const AttentionShape& shape, const AttentionSlice& slice,
                    const std::array<Matrix, kOperands>& operands, const HeadPlace& at, const Matrix& parts,
                    CudnnPlan& plan, void* workspace) const;
  /// nullptr when cuDNN does not do it, with the reason in `why`.
  CudnnPlan* plan(const CudnnGraph& graph, std::string& why);
  /// The plan and a place in `scratch` for its workspace, behind its first `before` bytes.
  CudnnPlan* plan_in(const CudnnGraph& graph, const Matrix& scratch, std::int64_t before, void*& workspace,
                     std::string& why);
  /// Remembers a call's first choice; true: cuDNN's.
  bool note(const Call& call, const std::string& why);

  int device_;
  Queue queue_;
  bool deterministic_;
  bool tried_;  // to open the library
  std::unique_ptr<Cudnn> library_;
  std::string why_no_library_;
  std::vector<Plan> plans_;  // a model has few shapes
  std::vector<std::pair<Call, std::string>> noted_;
};

}  // namespace plumbline::cuda
