// cuDNN's fused attention: a graph in our terms, and the plan that cuDNN makes of it. cudnn_plan.cpp builds
// the graphs with NVIDIA's cudnn-frontend, a header library. Without it a backward is some thirty operations
// of the C interface, in the one pattern that this version of cuDNN recognises. The one-node operations of
// cuDNN 9.19 (CUDNN_BACKEND_OPERATION_SDPA_*) know no causal mask. toolkit.cmake looks for it;
// cudnn_absent.cpp replaces it if it is missing. libcudnn.so.9 itself is loaded when the first plan is
// wanted, so that programs start without it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor/dtype.hpp"

namespace plumbline::cuda {

/// Places in CudnnGraph::strides and Cudnn's pointers. A forward has the first five.
enum Operand { kQ, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kOperands };
/// Operands whose heads are as wide as values; the others' are as wide as keys.
constexpr bool of_values(int operand) {
  return operand == kV || operand == kOut || operand == kDout || operand == kDv;
}

/// Causal attention of `sequences` sequences without dropout, scores scaled by 1/sqrt(head_dim). Heads lie
/// side by side in token rows; lse is (sequences·heads, seq), contiguous.
struct CudnnGraph {
  bool backward = false;
  DType type = DType::bf16;
  std::int64_t sequences = 1, seq = 1, heads = 1, kv_heads = 1;
  std::int64_t head_dim = 8, value_dim = 8;  // elements of a head's queries and keys, of its values
  std::int64_t window = 0;  // keys that a query sees, itself included, less than seq; 0: all up to itself
  std::array<std::int64_t, kOperands> strides{};  // elements from a token row to the next; kLse: ignored
  bool deterministic = false;                     // a backward that gives the same bits every time
  friend bool operator==(const CudnnGraph&, const CudnnGraph&) = default;
};

class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  /// Bytes that `workspace` must have.
  virtual std::int64_t workspace() const = 0;
  /// Submits to the library's stream. Throws Error with cuDNN's words.
  virtual void run(const std::array<void*, kOperands>& pointers, void* workspace) = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  /// nullptr if cuDNN has no kernels for the graph on this device; `why`, if any, gets its message. Takes
  /// seconds: cuDNN compiles.
  virtual std::unique_ptr<CudnnPlan> plan(const CudnnGraph& graph, std::string* why = nullptr) = 0;
  /// "cuDNN 9.19.0".
  virtual std::string version() const = 0;
};

/// cuDNN on a device whose work goes to `stream` (a cudaStream_t); nullptr, with the reason in `why`, when
/// this build has none or the library cannot be loaded.
std::unique_ptr<Cudnn> open_cudnn(int device, void* stream, std::string* why = nullptr);

/// cuDNN for a device that is only described, in the JSON of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION: plans
/// tell their workspace and cannot run. A driver library is needed nevertheless.
std::unique_ptr<Cudnn> describe_cudnn(std::string_view device, int compute_capability,
                                      std::string* why = nullptr);

}  // namespace plumbline::cuda
