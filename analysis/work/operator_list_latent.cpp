// Queries, keys and values of latent attention, call by call (bench/training/latent.md).
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Bytes that are moved when the keys of all heads are put together, per element of theirs.
double bytes_of_keys(const StageShape& s) {
  const auto parts = static_cast<double>(s.attention.own_keys() + s.attention.rotated);
  return static_cast<double>(s.numerics.e()) * (1 + parts / static_cast<double>(s.attention.k));
}

}  // namespace

void CallList::gather_compressed(const char* label) {
  gather_compressed(label, s_.numerics.type);
}

void CallList::gather_compressed(const char* label, DType type) {
  if (!s_.sharding.sequence_parallel) return;
  collective(CallKind::all_gather, label, Group::tensor, s_.sharding.tensor,
             s_.stream.tokens * s_.attention.compressed(), type);
  allocations(1);
}

/// A product with the matrix that compresses. Its rows are the tensor rank's own, a weight gradient's all.
void CallList::compression(GemmPass pass) {
  linear("compression", pass, s_.attention.compressed(), s_.stream.hidden);
  if (pass != GemmPass::weight_gradient) last<GemmCall>().tokens = s_.stream.rows;
}

void CallList::latent_forward() {
  const auto e = static_cast<double>(s_.numerics.e());
  compression(GemmPass::forward);
  if (s_.attention.query_rank > 0)
    memory("head_norm_forward", s_.stream.rows * s_.attention.query_rank, 2 * e);
  memory("head_norm_forward", s_.stream.rows * s_.attention.kv_rank, 2 * e);
  memory("copy", s_.stream.rows * s_.attention.rotated, 2 * e);
  latent_up_projection(false);
  allocations(4);
}

/// Operands of products that read the compressed form; nothing in the storage type. Queries without
/// compression read the first norm's output.
void CallList::queries(GemmPass pass) {
  if (s_.attention.query_rank == 0) return linear("queries", pass, s_.attention.q, s_.stream.hidden);
  if (pass != GemmPass::input_gradient) quantize(s_.stream.tokens * s_.attention.query_rank);
  linear("queries", pass, s_.attention.q, s_.attention.query_rank);
}

/// In FP8 one product, whose values' part is split off or joined separately.
void CallList::keys_values(GemmPass pass) {
  if (!s_.numerics.fp8) {
    gemm("keys", pass, s_.attention.own_keys(), s_.attention.kv_rank);
    if (pass == GemmPass::forward) memory("join_heads", s_.stream.tokens * s_.attention.k, bytes_of_keys(s_));
    return gemm("values", pass, s_.attention.attended(), s_.attention.kv_rank);
  }
  if (pass != GemmPass::input_gradient) quantize(s_.stream.tokens * s_.attention.kv_rank);
  linear("keys and values", pass, s_.attention.own_keys() + s_.attention.attended(), s_.attention.kv_rank);
  if (pass != GemmPass::forward) return;
  memory("copy", s_.stream.tokens * s_.attention.attended(), 2 * static_cast<double>(s_.numerics.e()));
  memory("join_heads", s_.stream.tokens * s_.attention.k, bytes_of_keys(s_));
}

/// Their gradients, as products read them.
void CallList::quantize_up_gradients() {
  if (!s_.numerics.fp8) return;
  quantize(s_.stream.tokens * s_.attention.q);
  memory("copy", s_.stream.tokens * s_.attention.attended(), 2 * static_cast<double>(s_.numerics.e()));
  quantize(s_.stream.tokens * (s_.attention.own_keys() + s_.attention.attended()));
}

/// `again`: the keys' rotated elements are found as they are read, unless they are gathered.
void CallList::latent_up_projection(bool again) {
  const auto e = static_cast<double>(s_.numerics.e());
  gather_compressed("sequence all-gather forward");
  if (!again || s_.sharding.sequence_parallel)
    by_conversation("rope", s_.attention.rotated, 2 * e, s_.attention.rotated);
  if (s_.attention.query_rank == 0) gathered_operand("sequence all-gather forward");
  queries(GemmPass::forward);
  by_conversation("rope", s_.attention.q, 2 * e, s_.attention.head_dim);
  keys_values(GemmPass::forward);
}

void CallList::latent_backward(bool input, bool weight) {
  const auto e = static_cast<double>(s_.numerics.e());
  if (input) {
    by_conversation("rope", s_.attention.q, 2 * e, s_.attention.head_dim);
    memory("split_heads", s_.stream.tokens * s_.attention.k, bytes_of_keys(s_));
    by_conversation("rope", s_.attention.rotated, 2 * e, s_.attention.rotated);
    quantize_up_gradients();
    queries(GemmPass::input_gradient);
    if (s_.attention.query_rank == 0)
      sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward",
                            s_.stream.hidden);
    keys_values(GemmPass::input_gradient);
    sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward",
                          s_.attention.compressed());
    allocations(2);
  }
  if (weight) {
    gather_compressed("sequence all-gather backward");
    if (!input) memory("split_heads", s_.stream.tokens * s_.attention.k, bytes_of_keys(s_));
    if (!input) allocations(1);
    if (!input) quantize_up_gradients();
    if (s_.attention.query_rank == 0) gathered_operand("sequence all-gather backward");
    queries(GemmPass::weight_gradient);
    keys_values(GemmPass::weight_gradient);
  }
  if (input) {
    if (s_.attention.query_rank > 0)
      memory("head_norm_backward", s_.stream.rows * s_.attention.query_rank, 3 * e);
    memory("head_norm_backward", s_.stream.rows * s_.attention.kv_rank, 3 * e);
  }
  quantize_compression();
  if (input) compression(GemmPass::input_gradient);
  if (weight) {
    gathered_operand("sequence all-gather backward");
    gather_compressed("sequence all-gather backward", s_.numerics.fp8 ? DType::fp8_e4m3 : s_.numerics.type);
    compression(GemmPass::weight_gradient);
  }
}

}  // namespace plumbline
