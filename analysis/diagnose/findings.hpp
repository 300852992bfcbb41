// Causes of lost time, named with their rank and their seconds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/diagnose/rank_breakdown.hpp"
#include "analysis/diagnose/rank_clocks.hpp"

namespace plumbline {

/// Causes below this share of the step are not named.
inline constexpr double kLeastFinding = 0.03;

struct StepFinding {
  TimeShare share = TimeShare::unknown;
  int rank = -1;       // -1: every rank
  double seconds = 0;  // of one step of that rank, or of the mean rank
  std::string cause;
  std::string change;  // advice
};

/// Causes of at least kLeastFinding of a step that takes `step_s`, the longest first. Ranks differ first; the
/// part that all ranks have in common is named once.
std::vector<StepFinding> findings_of(const std::vector<RankBreakdown>& ranks, const AlignedClocks& clocks,
                                     double step_s);

/// Changes that shorten this part of a step.
std::string_view advice_for(TimeShare share);

}  // namespace plumbline
