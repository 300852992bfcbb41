#include "analysis/work/frameworks/torchtitan_context.hpp"

#include "analysis/work/frameworks/torchtitan_llama.hpp"

namespace plumbline {
namespace {

/// The steps of one ring, and their passes over local tensors in bytes per element.
class TorchRing {
 public:
  TorchRing(const StageShape& s, bool backward, CallList& list, const std::function<void()>& partial)
      : s_(s), backward_(backward), compiled_(s.software->kernels.compiled), list_(list), partial_(partial) {
    const AttentionWidths& a = s.attention;
    rows_ = s.stream.tokens * (backward ? a.q : a.attended());
    // torchtitan's Llama copies K/V heads for all query heads before.
    keys_ = s.stream.tokens * (is_torchtitan_llama(s) ? a.q + a.attended() : a.k + a.values());
  }

  void append() {
    if (!compiled_) pass(kCopyKeys, keys_, 4);  // contiguous() of views of other layouts
    for (int step = 0; step < s_.cp.ranks; ++step) {
      const int keys = step + 1 < s_.cp.ranks ? send_keys(step) : 0;
      partial_();
      if (backward_) {
        add_gradients(step);
      } else {
        merge(step);
      }
      if (keys > 0) list_.wait(keys);
    }
    if (!backward_) return;
    wait_for_gradients();
    pass(kAddGradients, keys_, 6);  // to 16 bits
    if (!compiled_) pass(kAddGradients, rows_, 6);
  }

 private:
  static constexpr const char* kCopyKeys = "copy keys and values";
  static constexpr const char* kMerge = "attention merge";
  static constexpr const char* kAddGradients = "add attention gradients";

  void pass(const char* name, std::int64_t elements, double bytes) { list_.memory(name, elements, bytes); }
  bool gathers() const { return s_.cp.comm_type == CpCommType::all_gather; }

  /// A collective of the context group. Returns its ticket if it overlaps.
  int exchange(CallKind kind, const char* label, std::int64_t elements, DType type) {
    list_.collective(kind, label, Group::context, s_.cp.ranks, elements, type);
    return compiled_ ? 0 : list_.start_collective(label);
  }

  /// K and V in one buffer (cat), and where they go. Compiled, the backward of a recomputed layer reads those
  /// that its recomputation received: fx_graph_cse joins equal nodes (_functorch/compile_utils.py).
  int send_keys(int step) {
    if (compiled_ && backward_ && s_.recomputation.granularity == Recompute::full) return 0;
    if (gathers() && compiled_ && step > 0) return 0;  // buffers that nobody reads
    pass(kCopyKeys, keys_, 4);
    if (!gathers()) {
      return exchange(CallKind::ring_shift, backward_ ? "context ring backward" : "context ring forward",
                      keys_, s_.numerics.type);
    }
    if (step > 0) return 0;
    return exchange(CallKind::all_gather, "context all-gather", s_.cp.ranks * keys_, s_.numerics.type);
  }

  /// _SDPAMerger: out - sigmoid(...)·(out - block) in fp32. Eager: to fp32 6, difference 12, product 8, sum
  /// 12. The first block is only converted, the result goes back to 16 bits.
  void merge(int step) {
    const bool last = step + 1 == s_.cp.ranks;
    if (!compiled_) {
      pass(kMerge, rows_, step == 0 ? 6 : 6 + 12 + 8 + 12);
      if (last) pass(kMerge, rows_, 6);
    } else if (step > 0) {
      pass(kMerge, rows_, (step == 1 ? 2 : 4) + 2 + (last ? 2 : 4));
    }
  }

  /// Gradients of this step's K/V, added in fp32 to those that came from the previous rank (of half of the
  /// rows, the other half is copied: _partial_update) and sent on; those of queries stay.
  void add_gradients(int step) {
    const bool last = step + 1 == s_.cp.ranks;
    if (compiled_) {
      pass(kAddGradients, keys_, step == 0 ? 6 : 9);
      pass(kAddGradients, rows_, step == 0 ? 6 : last ? 8 : 10);
    } else {
      pass(kAddGradients, keys_, (step == 0 ? 4 + 10 : 5 + 8) + 8);  // zeros and sum, or both parts; cat
      pass(kAddGradients, rows_, step == 0 ? 4 + 10 : 10);
    }
    wait_for_gradients();
    gradients_ = exchange(CallKind::ring_shift, "context ring of gradients", keys_, DType::fp32);
  }

  void wait_for_gradients() {
    if (gradients_ > 0) list_.wait(gradients_);
    gradients_ = 0;
  }

  const StageShape& s_;
  const bool backward_;
  const bool compiled_;
  CallList& list_;
  const std::function<void()>& partial_;
  std::int64_t rows_ = 0;  // elements of attention's results, or of query gradients
  std::int64_t keys_ = 0;  // of keys and values
  int gradients_ = 0;      // ticket of the gradients under way
};

}  // namespace

bool is_torch_ring(const StageShape& s) {
  const bool shares = s.cp.comm_type == CpCommType::p2p || s.cp.comm_type == CpCommType::all_gather;
  return s.cp.ranks > 1 && shares && s.software->kernels.llama_module;
}

void torch_ring(const StageShape& s, bool backward, CallList& list, const std::function<void()>& partial) {
  TorchRing(s, backward, list, partial).append();
}

}  // namespace plumbline
