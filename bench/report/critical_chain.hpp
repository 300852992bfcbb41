// Which events of a trace, predicted or measured, determine its length.
#pragma once

#include <cstddef>
#include <vector>

#include "core/trace/trace.hpp"

namespace plumbline {

struct EventAt {
  std::size_t rank = 0;
  std::size_t position = 0;
  friend bool operator==(const EventAt&, const EventAt&) = default;
};

/// The chain of events, each of which could not start before the one before it had ended, from the event that
/// ends last back to the start, in order of time. Of what an event waits for (the event before it on its
/// rank; the neighbouring stage's result or message; the last rank to come to a reduction or to the
/// optimizer) the one that ended last counts, on its own rank when both ended together. Times decide, so it
/// works for measured traces, whose gaps stay gaps.
std::vector<EventAt> critical_chain(const Trace& trace);

}  // namespace plumbline
