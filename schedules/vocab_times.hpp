// The times by which the passes of a split vocabulary are ordered.
#pragma once

#include "core/base/units.hpp"

namespace plumbline {

/// Relative durations that decide where the passes go; only their ratios matter.
struct VocabTimes {
  Seconds forward{1.0};  // of one stage and micro-batch
  Seconds backward{2.0};
  Seconds vocab_forward{0.25};   // S
  Seconds vocab_backward{0.25};  // T
  Seconds input_forward{0.05};   // IF
  Seconds input_backward{0.05};  // IB
  /// Times of the collectives between passes: from one pass that starts one to the next that needs it, on
  /// other ranks. Where they are hidden the order leaves room for other passes.
  Seconds hidden{};              // last stage's F to S
  Seconds statistics{};          // S to T
  Seconds gradient{};            // T (S with one barrier) to the last stage's backward, with one barrier to T
  Seconds embedding{};           // IF to the first stage's F
  Seconds embedding_gradient{};  // the first stage's backward to IB
  Seconds backward_input{};      // I and W of one stage and micro-batch; 0: half of the backward
  Seconds backward_weight{};
  Seconds transfer{};  // of a message between ranks
};

}  // namespace plumbline
