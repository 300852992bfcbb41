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
  take(Category::logits, bytes_.logits);
  if (s_.vocabulary.two_barriers) values_.end_use();
  widen_logits();
  take(kWorkspace, bytes_.shard_statistics);
  if (!s_.vocabulary.two_barriers) {
    take(kWorkspace, bytes_.output_gradient);
    if (s_.ends.loss_in_fp32) {
      take(kWorkspace, bytes_.logits);  // the softmax, rounded for the product
      give(kWorkspace, bytes_.logits);
    }
    take(kWorkspace, bytes_.target_rows);
    values_.end_use();
  }
  if (another_follows && !s_.vocabulary.last_rank) take(kActivations, whole_stream());  // X(m+1)
}

void StageReplay::vocabulary_backward() {
  if (!s_.vocabulary.two_barriers) {
    give(kWorkspace, bytes_.target_rows);
    if (!s_.vocabulary.last_rank) give(kWorkspace, bytes_.output_gradient);
  }
  round_logits_gradient();
  if (s_.vocabulary.two_barriers) {
    values_.begin_use();
    if (s_.vocabulary.last_rank) take(kWorkspace, bytes_.output_gradient);
    values_.end_use();
  }
  first_gradient_of(vocabulary_unit_);
  give(Category::logits, bytes_.logits);
  give(kWorkspace, bytes_.shard_statistics);
  give(kActivations, whole_stream());  // X(m)
  gradient_done(vocabulary_unit_, final_.output);
  end_of_action();
}

/// All rows of the tensor rank that passes have; the layers have a part of them with sequence parallelism.
std::int64_t StageReplay::whole_stream() const {
  return std::max(bytes_.stream, bytes_.gathered);
}

/// On the first stage: its rows of the looked-up tokens.
void StageReplay::take_own_rows() {
  if (bytes_.gathered == 0) return;
  take(kActivations, bytes_.stream);
  give(kActivations, bytes_.gathered);
}

/// On the last stage: all rows of the final norm's output, X.
void StageReplay::gather_hidden() {
  if (bytes_.gathered == 0) return;
  take(kActivations, bytes_.gathered);
  give(kActivations, bytes_.stream);
}

/// On the first stage: G, in `category`, or all rows of it stay for IB.
void StageReplay::gather_input_gradient(Category category) {
  gather_stream();
  position_backward();
  if (bytes_.gathered > 0) give(category, bytes_.stream);
}

/// On the last stage: dX, summed over all ranks, becomes dnorm.
void StageReplay::take_output_gradient() {
  if (s_.numerics.e() == 4 && bytes_.gathered == 0) return;  // they are one
  take(kWorkspace, bytes_.stream);
  give(kWorkspace, bytes_.output_gradient);
}

void StageReplay::input_backward() {
  first_gradient_of(vocabulary_unit_);
  gradient_done(vocabulary_unit_, final_.embedding);
  if (s_.vocabulary.first_rank && bytes_.gathered > 0) {
    release_gathered();  // all rows of G
  } else if (s_.vocabulary.first_rank) {
    give(s_.vocabulary.split_backward ? kWorkspace : embedded_gradient(), bytes_.stream);  // G
  }
  end_of_action();
}

}  // namespace plumbline
