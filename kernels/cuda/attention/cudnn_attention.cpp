#include "kernels/cuda/attention/cudnn_attention.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/cuda/attention/cudnn_slices.hpp"

namespace plumbline::cuda {
namespace {

/// cuDNN reads 16 bytes at once, and checks neither pointers nor strides.
bool is_aligned(const Matrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (x.rows <= 1 || x.stride % 8 == 0);
}

using Operands = std::array<Matrix, kOperands>;

bool are_aligned(std::span<const Matrix> operands) {
  return std::all_of(operands.begin(), operands.end(), is_aligned);
}

/// The first byte of `scratch` that a workspace may start at; nullptr when less than `bytes` follow.
void* workspace_in(const Matrix& scratch, std::int64_t bytes) {
  void* start = scratch.data;
  auto room = static_cast<std::size_t>(scratch.bytes().value);
  return std::align(256, static_cast<std::size_t>(bytes), start, room);
}

CudnnGraph graph_of(const AttentionShape& s, const AttentionSlice& slice, const Operands& operands,
                    bool backward) {
  CudnnGraph graph;
  graph.backward = backward;
  graph.type = operands[kQ].dtype;
  graph.sequences = slice.sequences;
  graph.seq = s.seq;
  graph.heads = slice.kv_heads * (s.heads / s.kv_heads);
  graph.kv_heads = slice.kv_heads;
  graph.head_dim = s.head_dim;
  graph.window = s.window < s.seq ? s.window : 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph.strides[i] = i == kLse ? 0 : operands[i].stride;
  }
  return graph;
}

/// Where the operands of the slice from sequence `sequence` and key/value head `kv_head` on begin.
std::array<void*, kOperands> places_of(const AttentionShape& s, const Operands& operands,
                                       std::int64_t sequence, std::int64_t kv_head) {
  const std::int64_t head = kv_head * (s.heads / s.kv_heads);
  std::array<void*, kOperands> places{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Matrix& x = operands[i];
    if (x.data == nullptr) continue;  // of a backward
    if (i == kLse) {
      places[i] = x.at(sequence * s.heads + head, 0);
      continue;
    }
    const bool shared = i == kK || i == kV || i == kDk || i == kDv;
    places[i] = x.at(sequence * s.seq, (shared ? kv_head : head) * s.head_dim);
  }
  return places;
}

}  // namespace

CudnnPlan* CudnnAttention::plan(const CudnnGraph& graph) {
  if (!tried_) {
    tried_ = true;
    library_ = open_cudnn(device_, stream_);
  }
  if (library_ == nullptr) return nullptr;
  const auto known =
      std::find_if(plans_.begin(), plans_.end(), [&](const auto& entry) { return entry.first == graph; });
  if (known != plans_.end()) return known->second.get();
  plans_.emplace_back(graph, library_->plan(graph));
  return plans_.back().second.get();
}

bool CudnnAttention::forward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                             const Matrix& out, const Matrix& lse, const Matrix& scratch) {
  if (!cudnn_takes(s, q.dtype) || !lse.contiguous() || !are_aligned(std::array{q, k, v, out})) return false;
  const Operands operands = {q, k, v, out, lse};
  CudnnPlan* plan = this->plan(graph_of(s, {s.batch, s.kv_heads}, operands, false));
  if (plan == nullptr) return false;
  void* workspace = workspace_in(scratch, plan->workspace());
  if (workspace == nullptr) return false;
  plan->run(places_of(s, operands, 0, 0), workspace);
  return true;
}

bool CudnnAttention::backward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                              const Matrix& out, const Matrix& lse, const Matrix& dout, const Matrix& dq,
                              const Matrix& dk, const Matrix& dv, const Matrix& scratch) {
  const AttentionSlice slice = backward_slice(s, q.dtype);
  if (slice.empty() || !lse.contiguous() || !are_aligned(std::array{q, k, v, out, dout, dq, dk, dv})) {
    return false;
  }
  const Operands operands = {q, k, v, out, lse, dout, dq, dk, dv};
  CudnnPlan* plan = this->plan(graph_of(s, slice, operands, true));
  if (plan == nullptr) return false;
  void* workspace = workspace_in(scratch, plan->workspace());
  if (workspace == nullptr) return false;
  for (std::int64_t sequence = 0; sequence < s.batch; sequence += slice.sequences) {
    for (std::int64_t kv_head = 0; kv_head < s.kv_heads; kv_head += slice.kv_heads) {
      plan->run(places_of(s, operands, sequence, kv_head), workspace);
    }
  }
  return true;
}

}  // namespace plumbline::cuda
