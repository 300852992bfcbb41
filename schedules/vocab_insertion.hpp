// The run that decides where the passes of a split vocabulary go in a schedule.
#pragma once

#include "core/schedule/schedule.hpp"
#include "schedules/vocab_times.hpp"

namespace plumbline {

/// Freedoms of the insertion besides the passes.
struct InsertionRules {
  /// W's leave their places. A rank does the oldest when it would wait for something else, or when the next F
  /// would exceed the schedule's own peak. F, B and I keep their order.
  bool weights_move = false;
  /// A W is not begun when something else can start before this part of it would have passed.
  double patience = 0;
};

struct InsertedPasses {
  Schedule schedule;
  double length = 0;  // of the step with the given times
};

/// One run with the given times: see insert_vocab_passes.
InsertedPasses insert_passes(const Schedule& schedule, VocabPasses passes, bool input_layer,
                             const VocabTimes& times, const InsertionRules& rules);

}  // namespace plumbline
