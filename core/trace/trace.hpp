// Events and their times: the common result of a simulation and of an execution.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/collective_trace.hpp"

namespace plumbline {

struct Event {
  Action action;
  Seconds start;
  Seconds end;
};

/// Events of every pipeline rank in order of start, on one clock that is 0 at the start of the step.
struct Trace {
  std::vector<std::vector<Event>> ranks;
  /// Those of vocabulary parallelism on every pipeline rank, by kind and then by micro-batch; empty: there
  /// are none.
  std::vector<std::vector<CollectiveEvent>> collectives{};

  /// End of the last event of any rank.
  Seconds makespan() const;
  /// End of the last compute action of any rank: the pipeline's part of the step.
  Seconds pipeline_end() const;
  /// Time in compute actions of one rank (overlapping events counted once).
  Seconds busy(int rank) const;
};

/// The two bubble numbers over the pipeline's part of the step, [0, pipeline_end].
struct Bubble {
  double ratio = 0;     // idle ÷ compute, (P-1)/M for 1F1B with equal stages
  double fraction = 0;  // idle ÷ (idle + compute), (P-1)/(M+P-1)
};
Bubble bubble_of(const Trace& trace);

/// Time in actions of the given types after `from`, waiting included, mean over pipeline ranks.
Seconds mean_in(const Trace& trace, Seconds from, std::initializer_list<ActionType> types);

}  // namespace plumbline
