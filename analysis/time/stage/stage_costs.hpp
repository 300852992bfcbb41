// The time model's result: costs of every stage, and what they consist of.
#pragma once

#include <vector>

#include "analysis/simulate/costs.hpp"
#include "analysis/time/stage/cost_lines.hpp"
#include "analysis/time/time_phases.hpp"

namespace plumbline {

/// The overlapped pairs of one kind in a step that runs them together.
struct PairSaving {
  std::int64_t count = 0;
  Seconds all;     // of one of them: its gain over its two actions
  Seconds tensor;  // of that: in collectives
};

struct StageCostsPrediction {
  Costs costs;
  std::vector<PairSaving> pairs;                  // as costs.pairs
  std::vector<StageCommunication> communication;  // per stage of the schedule
  std::vector<CostLine> lines;
};

}  // namespace plumbline
