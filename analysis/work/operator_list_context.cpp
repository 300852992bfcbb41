// Attention over sequences that ranks share (bench/training/context.md). The list is that of the last of them, which has the
// largest gradients of keys and values to put together and, with a window, the most pairs of tokens; without they are the
// same on all.
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

/// Between the order of ranks and that of positions: every chunk of every sequence.
void CallList::reorder_chunks() {
  memory("copy", s_.chunk() * 2 * s_.k, 2 * static_cast<double>(s_.e()));
  calls.back().count = std::int64_t{2} * s_.context * s_.batch;
}

void CallList::gather_keys_values(const char* label) {
  const auto e = static_cast<double>(s_.e());
  memory("copy", s_.tokens * s_.k, 2 * e);
  memory("copy", s_.tokens * s_.k, 2 * e);
  collective(CallKind::all_gather, label, Group::context, s_.context, s_.context * s_.tokens * 2 * s_.k,
             s_.type);
  reorder_chunks();
  allocations(2);
}

/// Of one chunk of every sequence.
void CallList::chunk_attention(bool is_backward, std::int64_t window, std::int64_t past) {
  whole_attention(is_backward, window);
  OperatorCall& call = calls.back();
  call.tokens = s_.chunk();
  call.past = past;
  call.elements = s_.heads;
  call.count = s_.batch;
}

void CallList::shared_attention(bool is_backward, std::int64_t window) {
  const auto e = static_cast<double>(s_.e());
  const std::int64_t chunk = s_.chunk();
  const std::int64_t early = (s_.context - 1) * chunk;  // where the chunks of the last rank begin
  const std::int64_t late = s_.context * chunk;
  gather_keys_values(is_backward ? "context all-gather backward" : "context all-gather forward");
  if (!is_backward) {
    chunk_attention(false, window, early);
    return chunk_attention(false, window, late);
  }
  chunk_attention(true, window, late);
  memory("fill", early * 2 * s_.k, e);  // keys that it does not see
  calls.back().count = s_.batch;
  chunk_attention(true, window, early);
  memory("add", late * 2 * s_.k, 3 * e);
  calls.back().count = s_.batch;
  reorder_chunks();
  collective(CallKind::reduce_scatter, "context reduce-scatter", Group::context, s_.context,
             s_.context * s_.tokens * 2 * s_.k, s_.type);
  memory("copy", s_.tokens * s_.k, 2 * e);
  memory("copy", s_.tokens * s_.k, 2 * e);
  allocations(4);
}

}  // namespace plumbline
