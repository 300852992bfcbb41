// Bytes of the stream, attention, feed-forward layers and the loss; of mixtures in tensor_bytes_mixture.cpp.
#include "analysis/memory/stage/tensor_bytes.hpp"

#include "analysis/memory/stage/quantized_bytes.hpp"

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

std::int64_t normed_queries(const StageShape& s) {
  const AttentionWidths& a = s.attention;
  if (!a.qk_norm) return 0;
  const std::int64_t statistics = a.wide_norms ? 2 : a.heads + a.kv_heads;
  const std::int64_t width = exchanges(s) ? a.qkv() : a.q + a.k;  // with values that come back with them
  return s.stream.tokens * (width * s.numerics.e() + statistics * 4);
}

}  // namespace

StreamBytes::StreamBytes(const StageShape& s)
    : tensor(s.stream.rows * s.stream.hidden * s.numerics.e()),
      mask(s.block.dropout ? s.stream.rows * s.stream.hidden : 0),
      result(s.block.norms_results ? tensor : 0),
      result_statistics(s.block.norms_results ? s.block.norm_rows * s.stream.rows * 4 : 0),
      dropped(s.block.dropout || s.block.norms_results ? tensor : 0),
      gathered(s.sharding.sequence_parallel ? s.stream.tokens * s.stream.hidden * s.numerics.e() : 0),
      statistics(s.block.norm_rows * s.stream.rows * 4),
      input_statistics(s.block.input_norms() > 0 ? statistics : 0),
      features(s.stream.tokens * s.adapters.rank * s.numerics.e()),
      partial(s.sharding.tensor > 1 && (s.sharding.sequence_parallel || s.numerics.rounds_sums())
                  ? s.stream.tokens * s.stream.hidden * size_of(s.numerics.sum_type())
                  : 0),
      piece(s.sharding.sequence_parallel && s.numerics.rounds_sums() ? s.stream.rows * s.stream.hidden * 4
                                                                     : 0),
      norm_output(s.numerics.fp8               ? quantized_bytes(s, s.stream.rows * s.stream.hidden)
                  : s.block.input_norms() == 0 ? 0
                                               : tensor),
      wide_norm_output(s.numerics.fp8 && s.block.input_norms() > 0 ? tensor : 0),
      operand(s.sharding.sequence_parallel
                  ? s.stream.tokens * s.stream.hidden * (s.numerics.fp8 ? 1 : s.numerics.e())
                  : 0),
      quantized(quantized_bytes(s, s.stream.rows * s.stream.hidden)) {}

AttentionBytes::AttentionBytes(const StageShape& s)
    : qkv(s.stream.tokens * s.attention.qkv() * s.numerics.e()),
      normed(normed_queries(s)),
      output(s.stream.tokens * s.attention.attended() * s.numerics.e()),
      heads(exchanges(s) ? output : 0),
      lse(s.attention.heads * s.stream.tokens * 4 + probabilities(s) + repeated(s) +
          (exchanges(s) ? output : 0)),
      scores(pairs_of_tokens(s) * s.numerics.e()),
      quantized_output(quantized_bytes(s, s.stream.tokens * s.attention.attended())),
      quantized_qkv(quantized_bytes(s, s.stream.tokens * s.attention.qkv())),
      qkv_product(product_bytes(s, s.attention.latent() ? s.attention.compressed() : s.attention.qkv(),
                                s.stream.hidden)),
      projection_product(product_bytes(s, s.stream.hidden, s.attention.attended())) {}

ContextBytes::ContextBytes(const StageShape& s)
    : whole_keys(s.cp.ranks > 1 ? s.stream.batch * s.stream.seq * keys_and_values(s) : 0),
      part_keys(s.cp.ranks > 1 ? s.stream.seq * keys_and_values(s) : 0),
      own_keys(s.cp.ranks > 1 ? s.stream.tokens * keys_and_values(s) : 0),
      block(rings(s) ? s.chunk() * s.attention.attended() * s.numerics.e() : 0),
      block_queries(s.chunk() * s.attention.q * s.numerics.e()),
      block_statistics(s.attention.heads * s.chunk() * 4),
      block_keys(s.chunk() * keys_and_values(s)) {}

LatentBytes::LatentBytes(const StageShape& s, const StreamBytes& stream)
    : compressed(s.attention.latent() ? s.stream.rows * s.attention.compressed() * s.numerics.e() : 0),
      statistics(s.attention.latent() ? (s.attention.query_rank > 0 ? 2 : 1) * s.stream.rows * 4 : 0),
      gathered(s.attention.latent() && s.sharding.sequence_parallel
                   ? s.stream.tokens * s.attention.compressed() * s.numerics.e()
                   : 0),
      own_part_of_keys(s.attention.latent()
                           ? s.stream.tokens *
                                 (s.attention.own_keys() + (s.numerics.fp8 ? s.attention.attended() : 0)) *
                                 s.numerics.e()
                           : 0),
      partial(s.attention.latent() ? stream.partial / s.stream.hidden * s.attention.compressed() : 0),
      piece(s.attention.latent() ? stream.piece / s.stream.hidden * s.attention.compressed() : 0),
      quantized_compression(quantized_bytes(s, s.stream.rows * s.attention.compressed())),
      quantized_queries(quantized_bytes(s, s.stream.tokens * s.attention.q)),
      quantized_keys_values(
          quantized_bytes(s, s.stream.tokens * (s.attention.own_keys() + s.attention.attended()))),
      query_input(s.attention.query_rank > 0 ? quantized_bytes(s, s.stream.tokens * s.attention.query_rank)
                                             : 0),
      keys_values_input(quantized_bytes(s, s.stream.tokens * s.attention.kv_rank)),
      compression_gathered(s.numerics.fp8 && s.sharding.sequence_parallel
                               ? s.stream.tokens * s.attention.compressed()
                               : gathered),
      queries_product(product_bytes(s, s.attention.q, s.query_width())),
      keys_values_product(
          product_bytes(s, s.attention.own_keys() + s.attention.attended(), s.attention.kv_rank)) {}

LossBytes::LossBytes(const StageShape& s)
    : logits(s.stream.tokens * s.ends.outputs * s.numerics.e()),
      fp32_logits(s.ends.loss_in_fp32 ? s.stream.tokens * s.ends.outputs * 4 : 0),
      statistics((s.ends.scalar_head ? 1 : 3) * s.stream.tokens * 4),
      shard_statistics((3 * s.vocabulary.shards + 1) * s.stream.tokens * 4),
      output_gradient(s.stream.tokens * s.stream.hidden * 4),
      target_rows(s.sharding.zero >= 3 ? s.stream.tokens * s.stream.hidden * s.numerics.e() : 0) {}

TeacherBytes::TeacherBytes(const StageShape& s)
    : joint(s.stream.rows * (s.distillation.teacher_hidden + s.distillation.student_hidden) * s.numerics.e()),
      stream(s.stream.rows * s.distillation.teacher_hidden * s.numerics.e()),
      gathered(s.sharding.sequence_parallel ? s.stream.tokens * s.distillation.teacher_hidden * s.numerics.e()
                                            : 0),
      logits(s.stream.tokens * s.ends.outputs * s.distillation.cached_size) {}

TensorBytes::TensorBytes(const StageShape& s)
    : stream(s),
      attention(s),
      context(s),
      latent(s, stream),
      mlp(s),
      moe(s),
      shared(s),
      loss(s),
      teacher(s) {}

}  // namespace plumbline
