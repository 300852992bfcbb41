// Clocks of several ranks, and who waits for whom in their collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/diagnose/rank_breakdown.hpp"

namespace plumbline {

/// Time that a rank waits in exposed collectives for the last of their members.
struct RankWait {
  int waiting = 0;  // indices into the ranks
  int late = 0;
  double seconds = 0;
};

struct AlignedClocks {
  std::vector<std::int64_t> offsets;  // added to a rank's times they become the first rank's; nanoseconds
  std::int64_t matched = 0;           // collectives of the step that all ranks have
  std::vector<RankWait> waits;        // the longest first
};

/// Members of a collective leave it together: the median difference of their ends is that of their clocks.
/// Without a common collective the offsets are 0.
AlignedClocks align_clocks(const std::vector<RankBreakdown>& ranks);

}  // namespace plumbline
