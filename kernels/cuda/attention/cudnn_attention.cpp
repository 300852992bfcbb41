#include "kernels/cuda/attention/cudnn_attention.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

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

CudnnPlan* CudnnAttention::plan(const CudnnGraph& graph, std::string& why) {
  if (!tried_) {
    tried_ = true;
    library_ = open_cudnn(device_, stream_, &why_no_library_);
  }
  if (library_ == nullptr) {
    why = why_no_library_;
    return nullptr;
  }
  auto known =
      std::find_if(plans_.begin(), plans_.end(), [&](const Plan& entry) { return entry.graph == graph; });
  if (known == plans_.end()) {
    Plan made{graph, nullptr, ""};
    made.plan = library_->plan(graph, &made.why);
    known = plans_.insert(plans_.end(), std::move(made));
  }
  why = known->why;
  return known->plan.get();
}

CudnnPlan* CudnnAttention::plan_in(const CudnnGraph& graph, const Matrix& scratch, void*& workspace,
                                   std::string& why) {
  CudnnPlan* const found = plan(graph, why);
  if (found == nullptr) {
    if (why.empty()) why = "cuDNN refuses it";
    return nullptr;
  }
  workspace = workspace_in(scratch, found->workspace());
  if (workspace != nullptr) return found;
  why = "cuDNN wants " + std::to_string(found->workspace()) + " bytes of workspace, the scratch has " +
        std::to_string(scratch.bytes().value);
  return nullptr;
}

bool CudnnAttention::note(const Call& call, const std::string& why) {
  const AttentionShape& s = call.shape;
  const bool known = std::any_of(noted_.begin(), noted_.end(), [&](const auto& entry) {
    const AttentionShape& t = entry.first.shape;
    return entry.first.backward == call.backward && entry.first.type == call.type && t.batch == s.batch &&
           t.seq == s.seq && t.heads == s.heads && t.kv_heads == s.kv_heads && t.head_dim == s.head_dim &&
           t.values() == s.values() && t.window == s.window &&
           t.dropout.probability == s.dropout.probability && t.keys() == s.keys() &&
           is_part_of_sequence(t) == is_part_of_sequence(s);
  });
  if (!known) noted_.emplace_back(call, why);
  return why.empty();
}

std::vector<KernelChoice> CudnnAttention::choices() const {
  std::vector<KernelChoice> choices;
  choices.reserve(noted_.size());
  for (const auto& [call, why] : noted_) {
    const AttentionShape& s = call.shape;
    std::string text = std::string("attention_") + (call.backward ? "backward " : "forward ") +
                       std::string(name_of(call.type)) + ", batch " + std::to_string(s.batch) + ", seq " +
                       std::to_string(s.seq) + ", heads " + std::to_string(s.heads) + "/" +
                       std::to_string(s.kv_heads) + " x " + std::to_string(s.head_dim);
    if (s.values() != s.head_dim) text += ", values x " + std::to_string(s.values());
    if (is_part_of_sequence(s)) text += ", keys " + std::to_string(s.keys());
    if (s.window > 0) text += ", window " + std::to_string(s.window);
    choices.push_back({text, why.empty() ? library_->version() : "own kernels", why});
  }
  return choices;
}

namespace {

/// What about the operands' memory cuDNN cannot use.
std::string why_not_as_it_lies(const Matrix& lse, std::span<const Matrix> operands) {
  if (!lse.contiguous()) return "log-sum-exps have gaps";
  return are_aligned(operands) ? "" : "rows or heads are off 16-byte boundaries";
}

}  // namespace

bool CudnnAttention::forward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                             const Matrix& out, const Matrix& lse, const Matrix& scratch) {
  const Operands operands = {q, k, v, out, lse};
  std::string why = why_not_cudnn(s, q.dtype, false);
  if (why.empty()) why = why_not_as_it_lies(lse, std::array{q, k, v, out});
  void* workspace = nullptr;
  CudnnPlan* plan = nullptr;
  if (why.empty()) {
    plan = plan_in(graph_of(s, {s.batch, s.kv_heads}, operands, false), scratch, workspace, why);
  }
  if (!note({s, q.dtype, false}, plan == nullptr ? why : "")) return false;
  plan->run(places_of(s, operands, 0, 0), workspace);
  return true;
}

bool CudnnAttention::backward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                              const Matrix& out, const Matrix& lse, const Matrix& dout, const Matrix& dq,
                              const Matrix& dk, const Matrix& dv, const Matrix& scratch) {
  const Operands operands = {q, k, v, out, lse, dout, dq, dk, dv};
  std::string why = why_not_cudnn(s, q.dtype, true);
  if (why.empty()) why = why_not_as_it_lies(lse, std::array{q, k, v, out, dout, dq, dk, dv});
  const AttentionSlice slice = why.empty() ? backward_slice(s, q.dtype) : AttentionSlice{};
  void* workspace = nullptr;
  CudnnPlan* plan = nullptr;
  if (why.empty()) plan = plan_in(graph_of(s, slice, operands, true), scratch, workspace, why);
  if (!note({s, q.dtype, true}, plan == nullptr ? why : "")) return false;
  for (std::int64_t sequence = 0; sequence < s.batch; sequence += slice.sequences) {
    for (std::int64_t kv_head = 0; kv_head < s.kv_heads; kv_head += slice.kv_heads) {
      plan->run(places_of(s, operands, sequence, kv_head), workspace);
    }
  }
  return true;
}

}  // namespace plumbline::cuda
