// Time of a measured step by category, with the causes of lost time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/diagnose/findings.hpp"
#include "analysis/diagnose/rank_breakdown.hpp"
#include "analysis/diagnose/rank_clocks.hpp"

namespace plumbline {

struct Diagnosis {
  std::int64_t step = 0;      // its number in the trace
  std::string_view found_by;  // how steps were found
  std::int64_t steps = 0;     // in the trace
  double step_s = 0;          // mean over ranks
  SharedTime time;            // mean over ranks; its sum is step_s
  std::string device;         // the first rank's; empty: the host
  std::vector<RankBreakdown> ranks;
  AlignedClocks clocks;
  std::vector<StepFinding> findings;  // the longest first
  std::vector<std::string> notes;
};

/// One step of the ranks' traces. `step`: its number; else the median one. Traces without a rank get the
/// next free one. Throws InputError for traces that have no common step, or the same rank twice.
Diagnosis diagnose(const std::vector<ProfileTrace>& traces, std::optional<std::int64_t> step,
                   const GroupSizes& sizes);

}  // namespace plumbline
