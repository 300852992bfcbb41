#include "analysis/work/frameworks/framework_attention.hpp"

#include "analysis/work/frameworks/framework_llama.hpp"
#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

/// Bytes per element of YaRN's turn with an mscale, which has no fused kernel: two products, halves negated
/// and joined, their sum, joined with the part that is not turned (Megatron-Core, rope_utils.py,
/// _apply_rotary_pos_emb_bshd); back two products, halves negated and joined, and their sum.
constexpr double kTurned = 4 + 4 + 6 + 6 + 4;
constexpr double kTurnedBack = 4 + 4 + 6 + 6;

/// Elements of the materialised scores.
std::int64_t scores(const StageShape& s) {
  return s.stream.batch * s.attention.heads * s.stream.seq * s.stream.seq;
}

void softmax(const StageShape& s, FrameworkCalls& calls, double fused_passes) {
  if (softmax_is_fused(s)) return calls.stream("softmax", scores(s), 2 * fused_passes);
  for (int kernel = 0; kernel < 6; ++kernel) calls.stream("softmax", scores(s), 6);
}

/// Queries of grouped heads stand between keys and values, and are copied to be next to each other
/// (Megatron-Core, transformer/attention.py, reshape in get_query_key_value_tensors). Its gradient is a view,
/// and a rank's only group is in place.
bool copies_queries(const StageShape& s) {
  const bool grouped = s.attention.q > s.attention.k && s.attention.k > s.attention.head_dim;
  return s.software->communication.buckets() && grouped;
}

}  // namespace

bool softmax_is_fused(const StageShape& s) {
  // Megatron's fused kernels work on blocks of four rows of (micro-batch × local heads), 16 < s <= 2048
  // (fused_softmax.py, is_kernel_available); otherwise six pointwise kernels in fp32 replace one.
  return s.stream.batch * s.attention.heads % 4 == 0 && s.stream.seq <= 2048;
}

void attention_forward(const StageShape& s, std::int64_t window, FrameworkCalls& calls) {
  calls.attention_casts(s.stream.tokens * s.attention.qkv(), s.stream.tokens * s.attention.attended());
  if (!s.attention.unfused) return calls.attention(false, window);
  calls.batched("scores", s.stream.seq, s.stream.seq, s.attention.head_dim);
  softmax(s, calls, 1.5);  // reads the lower triangle, writes the square
  // Read, write and a mask of one byte; drawing the numbers takes longer than moving them.
  if (s.attention.dropout) calls.draw("attention dropout", scores(s), 5);
  calls.batched("values", s.stream.seq, s.attention.head_dim, s.stream.seq);
  calls.stream("copy", s.stream.tokens * s.attention.q, 4);  // heads back to rows
}

void attention_backward(const StageShape& s, std::int64_t window, FrameworkCalls& calls) {
  calls.attention_casts(s.stream.tokens * s.attention.attended(), s.stream.tokens * s.attention.qkv());
  if (!s.attention.unfused) return calls.attention(true, window);
  calls.stream("copy", s.stream.tokens * s.attention.q, 4);
  calls.batched("scores", s.stream.seq, s.stream.seq, s.attention.head_dim);  // dP
  calls.batched("values", s.stream.seq, s.attention.head_dim, s.stream.seq);  // dV
  if (s.attention.dropout) calls.stream("attention dropout", scores(s), 5);
  softmax(s, calls, 3);
  calls.batched("values", s.stream.seq, s.attention.head_dim, s.stream.seq);  // dQ
  calls.batched("values", s.stream.seq, s.attention.head_dim, s.stream.seq);  // dK
}

void turn_queries_and_keys(const StageShape& s, FrameworkCalls& calls, bool backward) {
  const std::int64_t elements = s.stream.tokens * (s.attention.q + s.attention.k);
  if (!backward && copies_queries(s)) calls.stream("copy queries", s.stream.tokens * s.attention.q, 4);
  double bytes = rotation_bytes(s);
  if (is_gpt_oss(s)) bytes = backward ? kTurnedBack : kTurned;
  if (s.attention.rotary) calls.stream("rope", elements * s.attention.rotated / s.attention.head_dim, bytes);
  if (!s.attention.qk_norm) return;
  calls.stream(backward ? "norm backward" : "norm", elements, norm_bytes(s, backward));
}

}  // namespace plumbline
