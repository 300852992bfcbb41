#include "core/trace/trace.hpp"

#include <algorithm>

namespace plumbline {

Seconds Trace::makespan() const {
  Seconds end;
  for (const auto& events : ranks) {
    for (const Event& event : events) end = std::max(end, event.end);
  }
  return end;
}

Seconds Trace::pipeline_end() const {
  Seconds end;
  for (const auto& events : ranks) {
    for (const Event& event : events) {
      if (is_compute(event.action.type)) end = std::max(end, event.end);
    }
  }
  return end;
}

Seconds Trace::busy(int rank) const {
  Seconds busy;
  Seconds covered;  // end of the intervals counted so far
  for (const Event& event : ranks[static_cast<std::size_t>(rank)]) {
    if (!is_compute(event.action.type)) continue;
    const Seconds from = std::max(event.start, covered);
    if (event.end > from) busy += event.end - from;
    covered = std::max(covered, event.end);
  }
  return busy;
}

Bubble bubble_of(const Trace& trace) {
  const Seconds window = trace.pipeline_end() * static_cast<double>(trace.ranks.size());
  Seconds busy;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) busy += trace.busy(rank);
  if (window.value <= 0 || busy.value <= 0) return {};
  const Seconds idle = window - busy;
  return {idle / busy, idle / window};
}

Seconds mean_in(const Trace& trace, Seconds from, std::initializer_list<ActionType> types) {
  Seconds total;
  for (const auto& events : trace.ranks) {
    for (const Event& event : events) {
      const bool counts = std::find(types.begin(), types.end(), event.action.type) != types.end();
      if (counts && event.end > from) total += event.end - std::max(event.start, from);
    }
  }
  return trace.ranks.empty() ? total : total / static_cast<double>(trace.ranks.size());
}

}  // namespace plumbline
