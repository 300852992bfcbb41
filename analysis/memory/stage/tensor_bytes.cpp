// Bytes of the tensors that the description names.
#include "analysis/memory/stage/tensor_bytes.hpp"

namespace plumbline {
namespace {

/// Pairs of tokens, once per query head; 0 for fused attention.
std::int64_t pairs_of_tokens(const StageShape& s) {
  return s.attention.unfused ? s.attention.heads * s.stream.tokens * s.stream.seq : 0;
}

/// The probabilities; with dropout also its mask and its result.
std::int64_t probabilities(const StageShape& s) {
  return pairs_of_tokens(s) * (s.attention.dropout ? 2 * s.numerics.e() + 1 : s.numerics.e());
}

/// Keys and values repeated for every query head.
std::int64_t repeated(const StageShape& s) {
  return s.attention.unfused ? 2 * s.stream.tokens * (s.attention.q - s.attention.k) * s.numerics.e() : 0;
}

constexpr std::int64_t kScaleBytes = 3 * sizeof(float);  // scale, 1/scale, largest value

/// A tensor of one byte per element, with the scale that belongs to it.
std::int64_t quantized(const StageShape& s, std::int64_t elements) {
  const std::int64_t scale = s.numerics.fp8_tensorwise ? kScaleBytes : 0;
  return s.numerics.fp8 ? elements + scale : 0;
}

/// The same for expert rows, with scales of each.
std::int64_t quantized_rows(const StageShape& s, std::int64_t width) {
  const std::int64_t scales = s.numerics.fp8_tensorwise ? kScaleBytes * s.local_experts() : 0;
  return s.numerics.fp8 && s.mixture() ? s.mlp_rows() * width + scales : 0;
}
/// Quantized operand of a shared expert.
std::int64_t quantized_shared(const StageShape& s, std::int64_t width) {
  return s.moe.shared > 0 ? quantized(s, s.stream.tokens * width) : 0;
}

/// True if context-parallel ranks exchange heads or pass K/V round a ring of ranks or of such groups.
bool exchanges(const StageShape& s) {
  return s.cp.head_ranks > 1;
}
bool rings(const StageShape& s) {
  return s.cp.ring() > 1 && s.cp.comm_type != CpCommType::all_gather;
}

/// Bytes of a token's keys and values.
std::int64_t keys_and_values(const StageShape& s) {
  return (s.attention.k + s.attention.values()) * s.numerics.e();
}

/// Choices of all tokens of an expert group, if tokens are gathered.
std::int64_t gathered_choices(const StageShape& s) {
  return s.gathers_tokens() ? s.expert.group * s.sent_choices() : 0;
}

/// Returned rows of choices that go to several ranks.
std::int64_t returns(const StageShape& s) {
  return s.sent_rows() > s.moe.choice_rows && !s.gathers_tokens() ? s.sent_rows() : 0;
}

std::int64_t normed_queries(const StageShape& s) {
  const AttentionWidths& a = s.attention;
  if (!a.qk_norm) return 0;
  const std::int64_t statistics = a.wide_norms ? 2 : a.heads + a.kv_heads;
  const std::int64_t width = exchanges(s) ? a.qkv() : a.q + a.k;  // with values that come back with them
  return s.stream.tokens * (width * s.numerics.e() + statistics * 4);
}

ProductBytes product(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.numerics.fp8) return {};
  return {s.sharding.zero >= 3 ? out * in : 0, s.stream.tokens * (out + in)};
}
/// Product of a feed-forward layer, or of all experts together.
ProductBytes feed_forward_product(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.numerics.fp8 || !s.mixture()) return product(s, out, in);
  return {s.sharding.zero >= 3 ? s.local_experts() * out * in : 0, s.mlp_rows() * (out + in)};
}

}  // namespace

TensorBytes::TensorBytes(const StageShape& s)
    : stream(s.stream.rows * s.stream.hidden * s.numerics.e()),
      mask(s.block.dropout ? s.stream.rows * s.stream.hidden : 0),
      result(s.block.norms_results ? stream : 0),
      result_statistics(s.block.norms_results ? s.block.norm_rows * s.stream.rows * 4 : 0),
      dropped(s.block.dropout || s.block.norms_results ? stream : 0),
      gathered(s.sharding.sequence_parallel ? s.stream.tokens * s.stream.hidden * s.numerics.e() : 0),
      statistics(s.block.norm_rows * s.stream.rows * 4),
      input_statistics(s.block.input_norms() > 0 ? statistics : 0),
      qkv(s.stream.tokens * s.attention.qkv() * s.numerics.e()),
      normed(normed_queries(s)),
      attention(s.stream.tokens * s.attention.attended() * s.numerics.e()),
      lse(s.attention.heads * s.stream.tokens * 4 + probabilities(s) + repeated(s) +
          (exchanges(s) ? attention : 0)),
      scores(pairs_of_tokens(s) * s.numerics.e()),
      whole_keys(s.cp.ranks > 1 ? s.stream.batch * s.stream.seq * keys_and_values(s) : 0),
      part_keys(s.cp.ranks > 1 ? s.stream.seq * keys_and_values(s) : 0),
      own_keys(s.cp.ranks > 1 ? s.stream.tokens * keys_and_values(s) : 0),
      block(rings(s) ? s.chunk() * s.attention.attended() * s.numerics.e() : 0),
      block_queries(s.chunk() * s.attention.q * s.numerics.e()),
      block_statistics(s.attention.heads * s.chunk() * 4),
      block_keys(s.chunk() * keys_and_values(s)),
      heads(exchanges(s) ? attention : 0),
      fc1(s.mlp_rows() * s.mlp.fc1 * s.numerics.e()),
      activation(s.mlp_rows() * s.mlp.ffn * s.numerics.e()),
      routing(s.stream.tokens * s.moe.experts * 4 +
              (s.moe.choices + s.sent_choices() + 2 * s.moe.choice_rows) * 4),
      load(s.moe.global_balance || s.moe.context_balance ? s.moe.experts * 4 : 0),
      rows_tokens(s.exchanges_rows() ? 0 : s.moe.choice_rows * 4),
      expert_rows(s.sent_rows() * s.stream.hidden * s.numerics.e()),
      expert_weights(2 * s.mlp_rows() * 4),
      router_gradient(s.stream.tokens * s.moe.experts * s.numerics.e()),
      own_rows(s.exchanges_rows() ? s.expert.rows * s.stream.hidden * s.numerics.e() : 0),
      orders(s.exchanges_rows() ? (2 * s.expert.rows + gathered_choices(s) + returns(s)) * 4 : 0),
      row_weights(s.exchanges_rows() ? s.expert.rows * 4 : 0),
      repeated_weights(returns(s) * 4),
      sent_weights(s.exchanges_rows() ? (s.gathers_tokens() ? s.moe.choice_rows : s.sent_rows()) * 4 : 0),
      own_weights(s.folds_experts() ? s.sent_choices() * 4 : 0),
      choice_weights(s.exchanges_rows() ? (s.folds_experts() ? s.moe.choices : s.moe.choice_rows) * 4 : 0),
      weights_by_rank(s.gathers_tokens() ? gathered_choices(s) * 4 : row_weights),
      group_tokens(s.gathers_tokens() ? s.expert.group * s.expert.sent * s.stream.hidden * s.numerics.e()
                                      : 0),
      group_sums(group_tokens / s.numerics.e() *
                 size_of(s.sharding.tensor > 1 && !s.sums_experts_apart() ? s.numerics.sum_type()
                                                                          : s.numerics.type)),
      shared_weights(s.moe.shared > 0 && s.moe.shared_gated ? s.stream.tokens * 4 : 0),
      shared_products(2 * shared_weights),
      shared_gate(s.moe.shared > 0 && s.moe.shared_gated ? s.stream.tokens * s.numerics.e() : 0),
      shared_fc1(s.stream.tokens * 2 * s.moe.shared * s.numerics.e()),
      shared_activation(s.stream.tokens * s.moe.shared * s.numerics.e()),
      compressed(s.attention.latent() ? s.stream.rows * s.attention.compressed() * s.numerics.e() : 0),
      compressed_statistics(s.attention.latent() ? (s.attention.query_rank > 0 ? 2 : 1) * s.stream.rows * 4
                                                 : 0),
      compressed_gathered(s.attention.latent() && s.sharding.sequence_parallel
                              ? s.stream.tokens * s.attention.compressed() * s.numerics.e()
                              : 0),
      own_part_of_keys(s.attention.latent()
                           ? s.stream.tokens *
                                 (s.attention.own_keys() + (s.numerics.fp8 ? s.attention.attended() : 0)) *
                                 s.numerics.e()
                           : 0),
      features(s.stream.tokens * s.adapters.rank * s.numerics.e()),
      logits(s.stream.tokens * s.ends.vocab * s.numerics.e()),
      fp32_logits(s.ends.loss_in_fp32 ? s.stream.tokens * s.ends.vocab * 4 : 0),
      loss(3 * s.stream.tokens * 4),
      joint(s.stream.rows * (s.distillation.teacher_hidden + s.distillation.student_hidden) * s.numerics.e()),
      teacher_stream(s.stream.rows * s.distillation.teacher_hidden * s.numerics.e()),
      teacher_gathered(s.sharding.sequence_parallel
                           ? s.stream.tokens * s.distillation.teacher_hidden * s.numerics.e()
                           : 0),
      teacher_logits(s.stream.tokens * s.ends.vocab * s.distillation.cached_size),
      partial(s.sharding.tensor > 1 && (s.sharding.sequence_parallel || s.numerics.rounds_sums())
                  ? s.stream.tokens * s.stream.hidden * size_of(s.numerics.sum_type())
                  : 0),
      piece(s.sharding.sequence_parallel && s.numerics.rounds_sums() ? s.stream.rows * s.stream.hidden * 4
                                                                     : 0),
      compressed_partial(s.attention.latent() ? partial / s.stream.hidden * s.attention.compressed() : 0),
      compressed_piece(s.attention.latent() ? piece / s.stream.hidden * s.attention.compressed() : 0),
      shard_statistics((3 * s.vocabulary.shards + 1) * s.stream.tokens * 4),
      output_gradient(s.stream.tokens * s.stream.hidden * 4),
      target_rows(s.sharding.zero >= 3 ? s.stream.tokens * s.stream.hidden * s.numerics.e() : 0),
      norm_output(s.block.input_norms() == 0 ? 0
                  : s.numerics.fp8           ? quantized(s, s.stream.rows * s.stream.hidden)
                                             : stream),
      activation_output(!s.numerics.fp8 ? activation
                        : s.mixture()   ? quantized_rows(s, s.mlp.ffn)
                                        : quantized(s, s.stream.tokens * s.mlp.ffn)),
      operand(s.sharding.sequence_parallel
                  ? s.stream.tokens * s.stream.hidden * (s.numerics.fp8 ? 1 : s.numerics.e())
                  : 0),
      wide_norm_output(s.numerics.fp8 ? stream : 0),
      wide_activation_output(s.numerics.fp8 ? activation : 0),
      quantized_stream(quantized(s, s.stream.rows * s.stream.hidden)),
      quantized_attention(quantized(s, s.stream.tokens * s.attention.attended())),
      quantized_fc1(quantized(s, s.stream.tokens * s.mlp.fc1)),
      quantized_qkv(quantized(s, s.stream.tokens * s.attention.qkv())),
      quantized_compression(quantized(s, s.stream.rows * s.attention.compressed())),
      quantized_queries(quantized(s, s.stream.tokens * s.attention.q)),
      quantized_keys_values(
          quantized(s, s.stream.tokens * (s.attention.own_keys() + s.attention.attended()))),
      query_input(s.attention.query_rank > 0 ? quantized(s, s.stream.tokens * s.attention.query_rank) : 0),
      keys_values_input(quantized(s, s.stream.tokens * s.attention.kv_rank)),
      compression_gathered(s.numerics.fp8 && s.sharding.sequence_parallel
                               ? s.stream.tokens * s.attention.compressed()
                               : compressed_gathered),
      qkv_product(
          product(s, s.attention.latent() ? s.attention.compressed() : s.attention.qkv(), s.stream.hidden)),
      queries_product(product(s, s.attention.q, s.query_width())),
      keys_values_product(product(s, s.attention.own_keys() + s.attention.attended(), s.attention.kv_rank)),
      projection_product(product(s, s.stream.hidden, s.attention.attended())),
      fc1_product(feed_forward_product(s, s.mlp.fc1, s.stream.hidden)),
      fc2_product(feed_forward_product(s, s.stream.hidden, s.mlp.ffn)),
      made_rows(s.exchanges_rows() ? own_rows : expert_rows),
      read_rows(s.numerics.fp8 ? quantized_rows(s, s.stream.hidden) : made_rows),
      kept_rows(s.exchanges_rows() ? read_rows : 0),
      fc1_gradient(s.numerics.fp8 ? quantized_rows(s, s.mlp.fc1) : fc1),
      shared_operand(quantized_shared(s, s.stream.hidden)),
      shared_activation_output(s.numerics.fp8 ? quantized_shared(s, s.moe.shared) : shared_activation),
      shared_fc1_gradient(s.numerics.fp8 ? quantized_shared(s, 2 * s.moe.shared) : shared_fc1),
      shared_fc1_product(s.moe.shared > 0 ? product(s, 2 * s.moe.shared, s.stream.hidden) : ProductBytes{}),
      shared_fc2_product(s.moe.shared > 0 ? product(s, s.stream.hidden, s.moe.shared) : ProductBytes{}) {}

}  // namespace plumbline
