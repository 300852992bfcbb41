#include "kernels/cuda/attention/cudnn_attention.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/attention/key_gradients.hpp"

namespace plumbline::cuda {
namespace {

/// cuDNN reads 16 bytes at once, and checks neither pointers nor strides.
bool is_aligned(const Matrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (x.rows <= 1 || x.stride % 8 == 0);
}

using Operands = std::array<Matrix, kOperands>;

constexpr std::int64_t kBoundary = 256;  // bytes, of a workspace

bool are_aligned(std::span<const Matrix> operands) {
  return std::all_of(operands.begin(), operands.end(), is_aligned);
}

/// The first byte after the first `before` of `scratch` where a buffer of `bytes` may start; nullptr when
/// less follow.
void* place_in(const Matrix& scratch, std::int64_t before, std::int64_t bytes) {
  const std::int64_t left = scratch.bytes().value - before;
  if (left < 0) return nullptr;
  void* start = static_cast<std::byte*>(scratch.data) + before;
  auto room = static_cast<std::size_t>(left);
  return std::align(kBoundary, static_cast<std::size_t>(bytes), start, room);
}

CudnnGraph graph_of(const AttentionShape& s, const AttentionSlice& slice, const Operands& operands,
                    bool backward, bool deterministic) {
  CudnnGraph graph;
  graph.backward = backward;
  graph.deterministic = backward && deterministic;
  graph.type = operands[kQ].dtype;
  graph.sequences = slice.sequences;
  graph.seq = s.seq;
  graph.heads = slice.kv_heads * slice.group;
  graph.kv_heads = slice.kv_heads;
  graph.head_dim = s.head_dim;
  graph.value_dim = s.values();
  graph.window = s.window < s.seq ? s.window : 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    graph.strides[i] = i == kLse ? 0 : operands[i].stride;
  }
  // Parts of the gradients of a key/value head lie by themselves.
  if (backward && slice.group < s.heads / s.kv_heads) graph.strides[kDk] = graph.strides[kDv] = s.head_dim;
  return graph;
}

/// Addresses of the operands of the slice that begins at sequence `sequence` and query head `head`.
std::array<void*, kOperands> places_of(const AttentionShape& s, const Operands& operands,
                                       std::int64_t sequence, std::int64_t head) {
  const std::int64_t kv_head = head / (s.heads / s.kv_heads);
  std::array<void*, kOperands> places{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Matrix& x = operands[i];
    if (x.data == nullptr) continue;  // of a backward
    if (i == kLse) {
      places[i] = x.at(sequence * s.heads + head, 0);
      continue;
    }
    const bool shared = i == kK || i == kV || i == kDk || i == kDv;
    const std::int64_t width = of_values(static_cast<int>(i)) ? s.values() : s.head_dim;
    places[i] = x.at(sequence * s.seq, (shared ? kv_head : head) * width);
  }
  return places;
}

}  // namespace

CudnnPlan* CudnnAttention::plan(const CudnnGraph& graph, std::string& why) {
  if (!tried_) {
    tried_ = true;
    library_ = open_cudnn(device_, queue_.stream, &why_no_library_);
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

CudnnPlan* CudnnAttention::plan_in(const CudnnGraph& graph, const Matrix& scratch, std::int64_t before,
                                   void*& workspace, std::string& why) {
  CudnnPlan* const found = plan(graph, why);
  if (found == nullptr) {
    if (why.empty()) why = "cuDNN refuses it";
    return nullptr;
  }
  workspace = place_in(scratch, before, found->workspace());
  if (workspace != nullptr) return found;
  why = "cuDNN wants " + std::to_string(found->workspace()) + " bytes of workspace, the scratch has " +
        std::to_string(scratch.bytes().value - before);
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
    std::string by = why.empty() ? library_->version() : "own kernels";
    if (why.empty() && call.backward) by += deterministic_ ? ", deterministic" : ", sums in any order";
    choices.push_back({std::move(text), std::move(by), why});
  }
  return choices;
}

namespace {

/// Property of the operands' memory that cuDNN cannot use.
std::string why_not_as_it_lies(const Matrix& lse, std::span<const Matrix> operands) {
  if (!lse.contiguous()) return "log-sum-exps have gaps";
  return are_aligned(operands) ? "" : "rows or heads are off 16-byte boundaries";
}

}  // namespace

bool CudnnAttention::forward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                             const Matrix& out, const Matrix& lse, const Matrix& scratch) {
  const Operands operands = {q, k, v, out, lse};
  std::string why = why_not_cudnn(s, q.dtype);
  if (why.empty()) why = why_not_as_it_lies(lse, std::array{q, k, v, out});
  void* workspace = nullptr;
  CudnnPlan* plan = nullptr;
  if (why.empty()) {
    const AttentionSlice whole{s.batch, s.kv_heads, s.heads / s.kv_heads};
    plan = plan_in(graph_of(s, whole, operands, false, deterministic_), scratch, 0, workspace, why);
  }
  if (!note({s, q.dtype, false}, plan == nullptr ? why : "")) return false;
  plan->run(places_of(s, operands, 0, 0), workspace);
  return true;
}

bool CudnnAttention::backward(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                              const Matrix& out, const Matrix& lse, const Matrix& dout, const Matrix& dq,
                              const Matrix& dk, const Matrix& dv, const Matrix& scratch) {
  const Operands operands = {q, k, v, out, lse, dout, dq, dk, dv};
  std::string why = why_not_cudnn(s, q.dtype);
  if (why.empty()) why = why_not_as_it_lies(lse, std::array{q, k, v, out, dout, dq, dk, dv});
  const AttentionSlice slice = why.empty() ? backward_slice(s, q.dtype, deterministic_) : AttentionSlice{};
  if (why.empty() && slice.empty())
    why = "deterministic, and the gradient of the scores of one query head takes more than 1 GiB";
  void* workspace = nullptr;
  CudnnPlan* plan = nullptr;
  std::int64_t elements = 0;  // of parts of key gradients
  if (why.empty()) {
    elements = parts_of_key_gradients(s, slice);
    const std::int64_t before = elements > 0 ? elements * size_of(q.dtype) + kBoundary : 0;
    plan = plan_in(graph_of(s, slice, operands, true, deterministic_), scratch, before, workspace, why);
  }
  if (!note({s, q.dtype, true}, plan == nullptr ? why : "")) return false;
  const std::int64_t group = s.heads / s.kv_heads;
  const Matrix parts(place_in(scratch, 0, elements * size_of(q.dtype)), 2 * (group / slice.group) * s.seq,
                     s.head_dim, q.dtype);
  for (std::int64_t sequence = 0; sequence < s.batch; sequence += slice.sequences) {
    for (std::int64_t kv_head = 0; kv_head < s.kv_heads; kv_head += slice.kv_heads) {
      if (elements == 0) {
        plan->run(places_of(s, operands, sequence, kv_head * group), workspace);
      } else {
        run_in_parts(s, slice, operands, {sequence, kv_head}, parts, *plan, workspace);
      }
    }
  }
  return true;
}

void CudnnAttention::run_in_parts(const AttentionShape& s, const AttentionSlice& slice,
                                  const std::array<Matrix, kOperands>& operands, const HeadPlace& at,
                                  const Matrix& parts, CudnnPlan& plan, void* workspace) const {
  const std::int64_t group = s.heads / s.kv_heads;
  const std::int64_t rows = group / slice.group * s.seq;  // of all parts
  for (std::int64_t first = 0; first < group; first += slice.group) {
    auto places = places_of(s, operands, at.sequence, at.kv_head * group + first);
    const std::int64_t row = first / slice.group * s.seq;
    places[kDk] = parts.at(row, 0);
    places[kDv] = parts.at(rows + row, 0);
    plan.run(places, workspace);
  }
  for (const auto& [whole, first] : {std::pair(kDk, std::int64_t{0}), std::pair(kDv, rows)}) {
    const Matrix& x = operands[whole];
    sum_key_gradients(
        queue_, Matrix(parts.at(first, 0), rows, s.head_dim, x.dtype),
        Matrix(x.at(at.sequence * s.seq, at.kv_head * s.head_dim), s.seq, s.head_dim, x.stride, x.dtype));
  }
}

}  // namespace plumbline::cuda
