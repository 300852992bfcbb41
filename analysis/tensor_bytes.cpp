// Bytes of the tensors that the description names.
#include "analysis/stage_memory.hpp"

namespace plumbline {

TensorBytes::TensorBytes(const StageShape& s)
    : stream(s.rows * s.hidden * s.e()),
      gathered(s.sequence_parallel ? s.tokens * s.hidden * s.e() : 0),
      statistics(s.norm_rows * s.rows * 4),
      qkv(s.tokens * (s.q + 2 * s.k) * s.e()),
      attention(s.tokens * s.q * s.e()),
      lse(s.heads * s.tokens * 4),
      fc1(s.tokens * s.fc1 * s.e()),
      activation(s.tokens * s.ffn * s.e()),
      logits(s.tokens * s.vocab * s.e()),
      loss(3 * s.tokens * 4),
      joint(s.rows * (s.distillation.teacher_hidden + s.distillation.student_hidden) * s.e()),
      teacher_stream(s.rows * s.distillation.teacher_hidden * s.e()),
      teacher_gathered(s.sequence_parallel ? s.tokens * s.distillation.teacher_hidden * s.e() : 0),
      teacher_logits(s.tokens * s.vocab * s.distillation.cached_size),
      partial(s.tensor > 1 && (s.sequence_parallel || s.e() < 4) ? s.tokens * s.hidden * 4 : 0),
      piece(s.sequence_parallel && s.e() < 4 ? s.rows * s.hidden * 4 : 0) {}

}  // namespace plumbline
