// The figures of a simulated step, printed by `plumbline simulate`.
#pragma once

#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/collective_overlap.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

struct SimulationReport {
  struct Rank {
    Seconds busy;
    Seconds idle;               // until the pipeline's end
    double peak_in_flight = 0;  // full-stage micro-batches
  };
  Seconds makespan;                // step overhead included
  Bubble bubble;                   // a barrier ends the pipeline
  double free_running_bubble = 0;  // idle ÷ step when ranks run ahead into the next step: longest rank only
  double peak_in_flight = 0;
  int peak_rank = 0;
  std::vector<Rank> ranks;
  bool vocabulary_passes = false;
  VocabularyOverlap vocabulary{};  // of their collectives
};

SimulationReport report_of(const Schedule& schedule, const Costs& costs, const Trace& trace);

}  // namespace plumbline
