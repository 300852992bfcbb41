// Products of a layer with the tensor group's collectives alongside them (bench/training/overlap.md).
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

void CallList::row_block(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
  gemm(label, pass, out, in);
  last<GemmCall>().tokens = s_.stream.rows;
  last<GemmCall>().fp8 = s_.numerics.fp8;
}

void CallList::linear_of_gathered(const char* gather, const char* label, GemmPass pass, std::int64_t out,
                                  std::int64_t in, bool whole) {
  const std::int64_t block = s_.stream.rows * s_.stream.hidden;
  const DType type = s_.numerics.fp8 ? DType::fp8_e4m3 : s_.numerics.type;
  std::vector<int> travelling;
  travelling.reserve(static_cast<std::size_t>(s_.sharding.tensor));
  allocations(1);
  for (int rank = 0; rank < s_.sharding.tensor; ++rank) {
    collective(CallKind::broadcast, gather, Group::tensor, s_.sharding.tensor, block, type);
    travelling.push_back(start_collective(gather));
  }
  if (whole) memory("copy", block, 2 * static_cast<double>(size_of(type)), type);
  if (s_.numerics.fp8) prepare_operands(pass, out, in);
  // The rank's own rows, then those of the others: this list is rank 0's.
  for (const int ticket : travelling) {
    if (ticket == travelling.front()) {
      row_block(label, pass, out, in);
      wait(ticket);
    } else {
      wait(ticket);
      row_block(label, pass, out, in);
    }
  }
}

void CallList::linear_summed(const char* scatter, const char* label, GemmPass pass, std::int64_t out,
                             std::int64_t in) {
  if (s_.numerics.fp8) prepare_operands(pass, out, in);
  int reduced = 0;
  for (int rank = 0; rank < s_.sharding.tensor; ++rank) {
    row_block(label, pass, out, in);
    if (reduced > 0) wait(reduced);
    collective(CallKind::reduce, scatter, Group::tensor, s_.sharding.tensor,
               s_.stream.rows * s_.stream.hidden, s_.numerics.sum_type());
    reduced = start_collective(scatter);
  }
  wait(reduced);
  round_sums();
}

}  // namespace plumbline
