#include "analysis/simulate/simulation_report.hpp"

#include <algorithm>

namespace plumbline {

SimulationReport report_of(const Schedule& schedule, const Costs& costs, const Trace& trace) {
  SimulationReport report;
  report.makespan = trace.makespan() + costs.step_overhead;
  report.bubble = bubble_of(trace);
  const Seconds end = trace.pipeline_end();
  Seconds longest;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const Seconds busy = trace.busy(rank);
    const double peak = peak_in_flight(schedule, rank);
    report.ranks.push_back({busy, end - busy, peak});
    if (peak > report.peak_in_flight) {
      report.peak_in_flight = peak;
      report.peak_rank = rank;
    }
    Seconds first = end;
    Seconds last;
    for (const Event& event : trace.ranks[static_cast<std::size_t>(rank)]) {
      if (!is_compute(event.action.type)) continue;
      first = std::min(first, event.start);
      last = std::max(last, event.end);
    }
    if (last - first > longest) {
      longest = last - first;
      report.free_running_bubble = longest.value > 0 ? 1 - busy / longest : 0;
    }
  }
  report.vocabulary_passes = !trace.collectives.empty();
  report.vocabulary = vocabulary_overlap(trace);
  return report;
}

}  // namespace plumbline
