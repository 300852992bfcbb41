// Bytes of the tensors that the description names.
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {
namespace {

/// Pairs of tokens, once per query head; 0 for fused attention.
std::int64_t pairs_of_tokens(const StageShape& s) {
  return s.unfused_attention ? s.heads * s.tokens * s.seq : 0;
}

/// The probabilities; with dropout also its mask and its result.
std::int64_t probabilities(const StageShape& s) {
  return pairs_of_tokens(s) * (s.attention_dropout ? 2 * s.e() + 1 : s.e());
}

/// Keys and values repeated for every query head.
std::int64_t repeated(const StageShape& s) {
  return s.unfused_attention ? 2 * s.tokens * (s.q - s.k) * s.e() : 0;
}

constexpr std::int64_t kScaleBytes = 3 * sizeof(float);  // scale, 1/scale, largest value

/// A tensor of one byte per element, with the scale that belongs to it.
std::int64_t quantized(const StageShape& s, std::int64_t elements) {
  const std::int64_t scale = s.fp8_tensorwise ? kScaleBytes : 0;
  return s.fp8 ? elements + scale : 0;
}

/// The same for expert rows, with scales of each.
std::int64_t quantized_rows(const StageShape& s, std::int64_t width) {
  const std::int64_t scales = s.fp8_tensorwise ? kScaleBytes * s.local_experts() : 0;
  return s.fp8 && s.mixture() ? s.mlp_rows() * width + scales : 0;
}
/// Quantized operand of a shared expert.
std::int64_t quantized_shared(const StageShape& s, std::int64_t width) {
  return s.shared > 0 ? quantized(s, s.tokens * width) : 0;
}

/// True if context-parallel ranks exchange heads or pass K/V round a ring of ranks or of such groups.
bool exchanges(const StageShape& s) {
  return s.head_ranks > 1;
}
bool rings(const StageShape& s) {
  return s.ring() > 1 && s.cp_comm_type != CpCommType::all_gather;
}

/// Choices of all tokens of an expert group, if tokens are gathered.
std::int64_t gathered_choices(const StageShape& s) {
  return s.gathers_tokens() ? s.expert.group * s.sent_choices() : 0;
}

/// Returned rows of choices that go to several ranks.
std::int64_t returns(const StageShape& s) {
  return s.sent_rows() > s.choice_rows && !s.gathers_tokens() ? s.sent_rows() : 0;
}

/// A norm of attention's or the MLP's result keeps its input and its statistics.
std::int64_t normed_result(const StageShape& s) {
  return s.rows * s.hidden * s.e() + s.norm_rows * s.rows * 4;
}

ProductBytes product(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.fp8) return {};
  return {s.zero >= 3 ? out * in : 0, s.tokens * (out + in)};
}
/// Product of a feed-forward layer, or of all experts together.
ProductBytes feed_forward_product(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.fp8 || !s.mixture()) return product(s, out, in);
  return {s.zero >= 3 ? s.local_experts() * out * in : 0, s.mlp_rows() * (out + in)};
}

}  // namespace

TensorBytes::TensorBytes(const StageShape& s)
    : stream(s.rows * s.hidden * s.e()),
      mask((s.hidden_dropout ? s.rows * s.hidden : 0) + (s.predicted.more_norms > 0 ? normed_result(s) : 0)),
      dropped(s.hidden_dropout ? stream : 0),
      gathered(s.sequence_parallel ? s.tokens * s.hidden * s.e() : 0),
      statistics(s.norm_rows * s.rows * 4),
      qkv(s.tokens * s.qkv() * s.e()),
      normed(s.qk_norm ? s.tokens * ((s.q + s.k) * s.e() + (s.heads + s.kv_heads) * 4) : 0),
      attention(s.tokens * s.attended() * s.e()),
      lse(s.heads * s.tokens * 4 + probabilities(s) + repeated(s) + (exchanges(s) ? attention : 0)),
      scores(pairs_of_tokens(s) * s.e()),
      whole_keys(s.context > 1 ? s.batch * s.seq * 2 * s.k * s.e() : 0),
      part_keys(s.context > 1 ? s.seq * 2 * s.k * s.e() : 0),
      own_keys(s.context > 1 ? s.tokens * 2 * s.k * s.e() : 0),
      block(rings(s) ? s.chunk() * s.q * s.e() : 0),
      block_statistics(s.heads * s.chunk() * 4),
      block_keys(s.chunk() * 2 * s.k * s.e()),
      heads(exchanges(s) ? attention : 0),
      fc1(s.mlp_rows() * s.fc1 * s.e()),
      activation(s.mlp_rows() * s.ffn * s.e()),
      routing(s.tokens * s.experts * 4 + (s.choices + s.sent_choices() + 2 * s.choice_rows) * 4),
      load(s.global_balance ? s.experts * 4 : 0),
      rows_tokens(s.exchanges_rows() ? 0 : s.choice_rows * 4),
      expert_rows(s.sent_rows() * s.hidden * s.e()),
      expert_weights(2 * s.mlp_rows() * 4),
      router_gradient(s.tokens * s.experts * s.e()),
      own_rows(s.exchanges_rows() ? s.expert.rows * s.hidden * s.e() : 0),
      orders(s.exchanges_rows() ? (2 * s.expert.rows + gathered_choices(s) + returns(s)) * 4 : 0),
      row_weights(s.exchanges_rows() ? s.expert.rows * 4 : 0),
      repeated_weights(returns(s) * 4),
      sent_weights(s.exchanges_rows() ? (s.gathers_tokens() ? s.choice_rows : s.sent_rows()) * 4 : 0),
      own_weights(s.folds_experts() ? s.sent_choices() * 4 : 0),
      choice_weights(s.exchanges_rows() ? (s.folds_experts() ? s.choices : s.choice_rows) * 4 : 0),
      weights_by_rank(s.gathers_tokens() ? gathered_choices(s) * 4 : row_weights),
      group_tokens(s.gathers_tokens() ? s.expert.group * s.expert.sent * s.hidden * s.e() : 0),
      group_sums(group_tokens / s.e() *
                 size_of(s.tensor > 1 && !s.sums_experts_apart() ? s.sum_type() : s.type)),
      shared_weights(s.shared > 0 && s.shared_gated ? s.tokens * 4 : 0),
      shared_products(2 * shared_weights),
      shared_gate(s.shared > 0 && s.shared_gated ? s.tokens * s.e() : 0),
      shared_fc1(s.tokens * 2 * s.shared * s.e()),
      shared_activation(s.tokens * s.shared * s.e()),
      compressed(s.latent() ? s.rows * s.compressed() * s.e() : 0),
      compressed_statistics(s.latent() ? (s.query_rank > 0 ? 2 : 1) * s.rows * 4 : 0),
      compressed_gathered(s.latent() && s.sequence_parallel ? s.tokens * s.compressed() * s.e() : 0),
      own_part_of_keys(s.latent() ? s.tokens * (s.own_keys() + (s.fp8 ? s.attended() : 0)) * s.e() : 0),
      logits(s.tokens * s.vocab * s.e()),
      fp32_logits(s.loss_in_fp32 ? s.tokens * s.vocab * 4 : 0),
      loss(3 * s.tokens * 4),
      joint(s.rows * (s.distillation.teacher_hidden + s.distillation.student_hidden) * s.e()),
      teacher_stream(s.rows * s.distillation.teacher_hidden * s.e()),
      teacher_gathered(s.sequence_parallel ? s.tokens * s.distillation.teacher_hidden * s.e() : 0),
      teacher_logits(s.tokens * s.vocab * s.distillation.cached_size),
      partial(s.tensor > 1 && (s.sequence_parallel || s.rounds_sums())
                  ? s.tokens * s.hidden * size_of(s.sum_type())
                  : 0),
      piece(s.sequence_parallel && s.rounds_sums() ? s.rows * s.hidden * 4 : 0),
      compressed_partial(s.latent() ? partial / s.hidden * s.compressed() : 0),
      compressed_piece(s.latent() ? piece / s.hidden * s.compressed() : 0),
      shard_statistics((3 * s.vocabulary.shards + 1) * s.tokens * 4),
      output_gradient(s.tokens * s.hidden * 4),
      target_rows(s.zero >= 3 ? s.tokens * s.hidden * s.e() : 0),
      norm_output(s.fp8 ? quantized(s, s.rows * s.hidden) : stream),
      activation_output(!s.fp8        ? activation
                        : s.mixture() ? quantized_rows(s, s.ffn)
                                      : quantized(s, s.tokens * s.ffn)),
      operand(s.sequence_parallel ? s.tokens * s.hidden * (s.fp8 ? 1 : s.e()) : 0),
      wide_norm_output(s.fp8 ? stream : 0),
      wide_activation_output(s.fp8 ? activation : 0),
      quantized_stream(quantized(s, s.rows * s.hidden)),
      quantized_attention(quantized(s, s.tokens * s.attended())),
      quantized_fc1(quantized(s, s.tokens * s.fc1)),
      quantized_qkv(quantized(s, s.tokens * s.qkv())),
      quantized_compression(quantized(s, s.rows * s.compressed())),
      quantized_queries(quantized(s, s.tokens * s.q)),
      quantized_keys_values(quantized(s, s.tokens * (s.own_keys() + s.attended()))),
      query_input(s.query_rank > 0 ? quantized(s, s.tokens * s.query_rank) : 0),
      keys_values_input(quantized(s, s.tokens * s.kv_rank)),
      compression_gathered(s.fp8 && s.sequence_parallel ? s.tokens * s.compressed() : compressed_gathered),
      qkv_product(product(s, s.latent() ? s.compressed() : s.qkv(), s.hidden)),
      queries_product(product(s, s.q, s.query_width())),
      keys_values_product(product(s, s.own_keys() + s.attended(), s.kv_rank)),
      projection_product(product(s, s.hidden, s.attended())),
      fc1_product(feed_forward_product(s, s.fc1, s.hidden)),
      fc2_product(feed_forward_product(s, s.hidden, s.ffn)),
      made_rows(s.exchanges_rows() ? own_rows : expert_rows),
      read_rows(s.fp8 ? quantized_rows(s, s.hidden) : made_rows),
      kept_rows(s.exchanges_rows() ? read_rows : 0),
      fc1_gradient(s.fp8 ? quantized_rows(s, s.fc1) : fc1),
      shared_operand(quantized_shared(s, s.hidden)),
      shared_activation_output(s.fp8 ? quantized_shared(s, s.shared) : shared_activation),
      shared_fc1_gradient(s.fp8 ? quantized_shared(s, 2 * s.shared) : shared_fc1),
      shared_fc1_product(s.shared > 0 ? product(s, 2 * s.shared, s.hidden) : ProductBytes{}),
      shared_fc2_product(s.shared > 0 ? product(s, s.hidden, s.shared) : ProductBytes{}) {}

}  // namespace plumbline
