// Events of a trace, predicted or measured, that determine its length.
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

/// The critical chain, in order of time: each event could not start before the previous one had ended. It is
/// followed from the event that ends last back to the start. An event depends on the previous one of its
/// rank, on the neighbouring stage's result or message, or on the last rank that arrives at a reduction or
/// the optimizer. The one that ended last counts, on its own rank when both ended together. Times decide, so
/// it works for measured traces, whose gaps stay gaps.
std::vector<EventAt> critical_chain(const Trace& trace);

}  // namespace plumbline
