// The teacher's forward and the loss that compares it with the student (bench/training/distillation.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// The stage's input came in a joint message.
bool StageReplay::joint_before() const {
  return s_.distillation.joint && !s_.place.first && !s_.place.previous_here;
}

/// The stage's output leaves in a joint message.
bool StageReplay::joint_after() const {
  return s_.distillation.joint && !s_.place.last && !s_.place.next_here;
}

void StageReplay::teacher_forward(bool loss) {
  if (s_.place.first || joint_before()) take(kTeacher, bytes_.stream.tensor);  // x
  if (s_.place.first) {
    values_.begin_use();
    gather_stream();  // the whole lookup, before it is reduced and scattered
    values_.end_use();
    if (s_.ends.positions > 0) {
      values_.begin_use();
      values_.end_use();
    }
    release_gathered();
    if (s_.ends.embedding_norm) {
      embedding_norm_forward();
      give(kTeacher, bytes_.stream.tensor + bytes_.stream.statistics);
    }
  }
  each(s_.layers, cuts_from(0), [&](std::int64_t i) {
    at_layer(i);
    begin_layer_use();
    layer_forward(false);
    const bool leaves = i == s_.layers - 1 && !s_.place.last && !s_.place.next_here;
    layer_output(leaves && !s_.distillation.joint);
    give(kTeacher, kept_by_layer());
    give(kTeacher, bytes_.stream.tensor);  // x
    end_layer_use();
  });
  if (!s_.place.last) return;
  take(kTeacher, bytes_.stream.tensor);  // final norm
  take(kTeacher, bytes_.stream.statistics);
  if (!s_.distillation.hidden) {
    values_.begin_use();
    gather_stream();
    take(kTeacher, bytes_.teacher.logits);
    values_.end_use();
    release_gathered();
    give(kTeacher, bytes_.stream.tensor);
  }
  give(kTeacher, bytes_.stream.statistics + bytes_.stream.tensor);  // and the final input
  if (loss) distillation_loss();
}

void StageReplay::distillation_loss() {
  std::int64_t teacher_logits = bytes_.teacher.logits;
  if (s_.distillation.hidden) {
    take(kWorkspace, bytes_.teacher.gathered);
    take(kTeacher, bytes_.loss.logits);
    give(kWorkspace, bytes_.teacher.gathered);
    give(kTeacher, bytes_.teacher.stream);  // the kept final norm output
    teacher_logits = bytes_.loss.logits;
  }
  if (s_.distillation.unfused) {
    const std::int64_t fp32 = s_.stream.tokens * s_.ends.outputs * 4;
    take(kWorkspace, 7 * fp32);  // both outputs, log-softmax, softmax, the three of the divergence
    give(kWorkspace, 3 * fp32);
    take(kWorkspace, 2 * fp32);  // gradients of log-softmax's output and input
    give(kWorkspace, 6 * fp32);
    if (s_.distillation.language_model) {
      take(kWorkspace, bytes_.loss.statistics);
      give(kWorkspace, bytes_.loss.statistics);
    }
  } else {
    const std::int64_t statistics = 7 * s_.stream.tokens * 4;
    take(kWorkspace, statistics);
    give(kWorkspace, statistics);
  }
  give(kTeacher, teacher_logits);
}

}  // namespace plumbline
