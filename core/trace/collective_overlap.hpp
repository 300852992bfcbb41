// Overlap of the collectives of vocabulary parallelism with computation; predicted and measured traces alike.
#pragma once

#include <array>
#include <limits>

#include "core/trace/trace.hpp"

namespace plumbline {

/// All collectives of one kind in a step, the mean over pipeline ranks.
struct CollectiveOverlap {
  Seconds time;     // in which they run: from when the last rank has reached one until it is done
  Seconds exposed;  // of it, the rank's wait
  Seconds waited;   // for them in all, also until the last rank has reached them
  /// Share of their time in the steady state in which the rank computes; NaN if there is no steady state or
  /// nothing takes time.
  double overlapped = std::numeric_limits<double>::quiet_NaN();
};
/// By VocabularyCall.
using VocabularyOverlap = std::array<CollectiveOverlap, kVocabularyCalls>;

/// The steady state of a step, in which every rank alternates forward and backward. From the begin of the
/// last rank's first B or I to the end of the first rank's last F. Empty (end before start) with too few
/// micro-batches.
struct SteadyState {
  Seconds start;
  Seconds end;
};
SteadyState steady_state(const Trace& trace);

/// A collective runs on a rank from when all ranks have reached it and the rank's one before of its kind is
/// done. Exposed is the rank's wait for it in that time; with one barrier, where C2 follows C1 by itself,
/// also its wait for C2 while C1 runs. A rank computes in its compute actions where it does not wait for a
/// collective. All 0 without collectives.
VocabularyOverlap vocabulary_overlap(const Trace& trace);

/// One number of all kinds together.
Seconds total_of(const VocabularyOverlap& overlap, Seconds CollectiveOverlap::*member);

}  // namespace plumbline
