// The residual stream: sums of blocks, over tensor ranks, and dropout.
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

void CallList::sum_over_tensor_ranks(const char* all_reduce, const char* reduce_scatter, std::int64_t width) {
  if (s_.sharding.tensor == 1) return;
  const std::int64_t whole = s_.stream.tokens * width;
  if (s_.sharding.sequence_parallel) {
    collective(CallKind::reduce_scatter, reduce_scatter, Group::tensor, s_.sharding.tensor, whole,
               s_.numerics.sum_type());
  } else {
    tensor_all_reduce(all_reduce, whole, s_.numerics.sum_type());
  }
  round_sums(width);
}

void CallList::residual_sum() {
  const auto e = static_cast<double>(s_.numerics.e());
  if (!s_.block.dropout) return memory("add", s_.stream.rows * s_.stream.hidden, 3 * e);
  dropout_mask();
  memory("dropout_add", s_.stream.rows * s_.stream.hidden, 3 * e + 1);
}

void CallList::drop_embedded() {
  if (!s_.block.dropout) return;
  dropout_mask();
  memory("dropout_add", s_.stream.rows * s_.stream.hidden, 2 * static_cast<double>(s_.numerics.e()) + 1);
}

void CallList::dropout_backward(bool in_place) {
  if (!s_.block.dropout) return;
  memory("dropout_backward", s_.stream.rows * s_.stream.hidden, 2 * static_cast<double>(s_.numerics.e()) + 1);
  if (!in_place) allocations(1);
}

}  // namespace plumbline
