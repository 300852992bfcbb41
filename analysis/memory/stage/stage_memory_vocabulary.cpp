// The passes of embedding and output layer that are split over all ranks (bench/training/vocabulary.md).
#include <algorithm>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

void StageReplay::input_forward(bool first_microbatch) {
  if (first_microbatch && !s_.vocabulary.last_rank) take(kActivations, whole_stream());  // X(0)
  if (s_.vocabulary.first_rank) take(kActivations, whole_stream());                      // x(m)
  values_.begin_use();
  values_.end_use();
}

void StageReplay::vocabulary_forward(bool another_follows) {
  values_.begin_use();
  take(Category::logits, bytes_.loss.logits);
  if (s_.vocabulary.two_barriers) values_.end_use();
  widen_logits();
  take(kWorkspace, bytes_.loss.shard_statistics);
  if (!s_.vocabulary.two_barriers) {
    take(kWorkspace, bytes_.loss.output_gradient);
    if (s_.ends.loss_in_fp32) {
      take(kWorkspace, bytes_.loss.logits);  // the softmax, rounded for the product
      give(kWorkspace, bytes_.loss.logits);
    }
    take(kWorkspace, bytes_.loss.target_rows);
    values_.end_use();
  }
  if (another_follows && !s_.vocabulary.last_rank) take(kActivations, whole_stream());  // X(m+1)
}

void StageReplay::vocabulary_backward() {
  if (!s_.vocabulary.two_barriers) {
    give(kWorkspace, bytes_.loss.target_rows);
    if (!s_.vocabulary.last_rank) give(kWorkspace, bytes_.loss.output_gradient);
  }
  round_logits_gradient();
  if (s_.vocabulary.two_barriers) {
    values_.begin_use();
    if (s_.vocabulary.last_rank) take(kWorkspace, bytes_.loss.output_gradient);
    values_.end_use();
  }
  first_gradient_of(vocabulary_unit_);
  give(Category::logits, bytes_.loss.logits);
  give(kWorkspace, bytes_.loss.shard_statistics);
  give(kActivations, whole_stream());  // X(m)
  gradient_done(vocabulary_unit_, final_.output);
  end_of_action();
}

/// All rows of the tensor rank that passes have; the layers have a part of them with sequence parallelism.
std::int64_t StageReplay::whole_stream() const {
  return std::max(bytes_.stream.tensor, bytes_.stream.gathered);
}

/// On the first stage: its rows of the looked-up tokens.
void StageReplay::take_own_rows() {
  if (bytes_.stream.gathered == 0) return;
  take(kActivations, bytes_.stream.tensor);
  give(kActivations, bytes_.stream.gathered);
}

/// On the last stage: all rows of the final norm's output, X.
void StageReplay::gather_hidden() {
  if (bytes_.stream.gathered == 0) return;
  take(kActivations, bytes_.stream.gathered);
  give(kActivations, bytes_.stream.tensor);
}

/// On the first stage: G, in `category`, or all rows of it stay for IB.
void StageReplay::gather_input_gradient(Category category) {
  gather_stream();
  position_backward();
  if (bytes_.stream.gathered > 0) give(category, bytes_.stream.tensor);
}

/// On the last stage: dX, summed over all ranks, becomes dnorm.
void StageReplay::take_output_gradient() {
  if (s_.numerics.e() == 4 && bytes_.stream.gathered == 0) return;  // they are one
  take(kWorkspace, bytes_.stream.tensor);
  give(kWorkspace, bytes_.loss.output_gradient);
}

void StageReplay::input_backward() {
  first_gradient_of(vocabulary_unit_);
  gradient_done(vocabulary_unit_, final_.embedding);
  if (s_.vocabulary.first_rank && bytes_.stream.gathered > 0) {
    release_gathered();  // all rows of G
  } else if (s_.vocabulary.first_rank) {
    give(s_.vocabulary.split_backward ? kWorkspace : embedded_gradient(), bytes_.stream.tensor);  // G
  }
  end_of_action();
}

}  // namespace plumbline
