// Bytes of the tensors that the description names.
#include "analysis/stage_memory.hpp"

namespace plumbline {
namespace {

/// Pairs of tokens, once per query head; 0 for fused attention.
std::int64_t pairs_of_tokens(const StageShape& s) {
  return s.unfused_attention ? s.heads * s.tokens * s.seq : 0;
}

/// The probabilities; with dropout also its mask and what it left of them.
std::int64_t probabilities(const StageShape& s) {
  return pairs_of_tokens(s) * (s.attention_dropout ? 2 * s.e() + 1 : s.e());
}

/// Keys and values repeated for every query head.
std::int64_t repeated(const StageShape& s) {
  return s.unfused_attention ? 2 * s.tokens * (s.q - s.k) * s.e() : 0;
}

}  // namespace

TensorBytes::TensorBytes(const StageShape& s)
    : stream(s.rows * s.hidden * s.e()),
      mask(s.hidden_dropout ? s.rows * s.hidden : 0),
      dropped(s.hidden_dropout ? stream : 0),
      gathered(s.sequence_parallel ? s.tokens * s.hidden * s.e() : 0),
      statistics(s.norm_rows * s.rows * 4),
      qkv(s.tokens * (s.q + 2 * s.k) * s.e()),
      attention(s.tokens * s.q * s.e()),
      lse(s.heads * s.tokens * 4 + probabilities(s) + repeated(s)),
      scores(pairs_of_tokens(s) * s.e()),
      fc1(s.tokens * s.fc1 * s.e()),
      activation(s.tokens * s.ffn * s.e()),
      logits(s.tokens * s.vocab * s.e()),
      fp32_logits(s.loss_in_fp32 ? s.tokens * s.vocab * 4 : 0),
      loss(3 * s.tokens * 4),
      joint(s.rows * (s.distillation.teacher_hidden + s.distillation.student_hidden) * s.e()),
      teacher_stream(s.rows * s.distillation.teacher_hidden * s.e()),
      teacher_gathered(s.sequence_parallel ? s.tokens * s.distillation.teacher_hidden * s.e() : 0),
      teacher_logits(s.tokens * s.vocab * s.distillation.cached_size),
      partial(s.tensor > 1 && (s.sequence_parallel || s.e() < 4) ? s.tokens * s.hidden * 4 : 0),
      piece(s.sequence_parallel && s.e() < 4 ? s.rows * s.hidden * 4 : 0),
      shard_statistics((3 * s.vocabulary.shards + 1) * s.tokens * 4),
      output_gradient(s.tokens * s.hidden * 4),
      target_rows(s.zero >= 3 ? s.tokens * s.hidden * s.e() : 0) {}

}  // namespace plumbline
