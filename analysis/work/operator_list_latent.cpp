// Queries, keys and values of latent attention, call by call (bench/training/latent.md).
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Bytes that are moved when the keys of all heads are put together, per element of theirs.
double bytes_of_keys(const StageShape& s) {
  const auto parts = static_cast<double>(s.own_keys() + s.rotated);
  return static_cast<double>(s.e()) * (1 + parts / static_cast<double>(s.k));
}

}  // namespace

void CallList::gather_compressed(const char* label) {
  if (!s_.sequence_parallel) return;
  collective(CallKind::all_gather, label, Group::tensor, s_.tensor, s_.tokens * s_.compressed(), s_.type);
  allocations(1);
}

/// A product with the matrix that compresses. Its rows are the tensor rank's own, a weight gradient's all.
void CallList::compression(GemmPass pass) {
  gemm("compression", pass, s_.compressed(), s_.hidden);
  if (pass != GemmPass::weight_gradient) calls.back().tokens = s_.rows;
}

void CallList::latent_forward() {
  const auto e = static_cast<double>(s_.e());
  compression(GemmPass::forward);
  memory("head_norm_forward", s_.rows * s_.query_rank, 2 * e);
  memory("head_norm_forward", s_.rows * s_.kv_rank, 2 * e);
  memory("copy", s_.rows * s_.rotated, 2 * e);
  latent_up_projection(false);
  allocations(4);
}

/// `again`: the keys' rotated elements are found as they are read, unless they are gathered.
void CallList::latent_up_projection(bool again) {
  const auto e = static_cast<double>(s_.e());
  gather_compressed("sequence all-gather forward");
  if (!again || s_.sequence_parallel) rows("rope", s_.tokens * s_.rotated, 2 * e, s_.rotated);
  gemm("queries", GemmPass::forward, s_.q, s_.query_rank);
  rows("rope", s_.tokens * s_.q, 2 * e, s_.head_dim);
  gemm("keys", GemmPass::forward, s_.own_keys(), s_.kv_rank);
  memory("join_heads", s_.tokens * s_.k, bytes_of_keys(s_));
  gemm("values", GemmPass::forward, s_.attended(), s_.kv_rank);
}

void CallList::latent_backward(bool input, bool weight) {
  const auto e = static_cast<double>(s_.e());
  const auto each = [&](GemmPass pass) {
    gemm("queries", pass, s_.q, s_.query_rank);
    gemm("keys", pass, s_.own_keys(), s_.kv_rank);
    gemm("values", pass, s_.attended(), s_.kv_rank);
  };
  if (input) {
    rows("rope", s_.tokens * s_.q, 2 * e, s_.head_dim);
    memory("split_heads", s_.tokens * s_.k, bytes_of_keys(s_));
    rows("rope", s_.tokens * s_.rotated, 2 * e, s_.rotated);
    each(GemmPass::input_gradient);
    sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward", s_.compressed());
    allocations(2);
  }
  if (weight) {
    gather_compressed("sequence all-gather backward");
    if (!input) memory("split_heads", s_.tokens * s_.k, bytes_of_keys(s_));
    if (!input) allocations(1);
    each(GemmPass::weight_gradient);
  }
  if (input) {
    memory("head_norm_backward", s_.rows * s_.query_rank, 3 * e);
    memory("head_norm_backward", s_.rows * s_.kv_rank, 3 * e);
    compression(GemmPass::input_gradient);
  }
  if (weight) {
    gathered_operand("sequence all-gather backward");
    gather_compressed("sequence all-gather backward");
    compression(GemmPass::weight_gradient);
  }
}

}  // namespace plumbline
