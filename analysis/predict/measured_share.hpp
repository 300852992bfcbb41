// Part of a predicted step that rests on measured operators of its accelerator.
#pragma once

#include <string>
#include <vector>

#include "analysis/time/stage/cost_lines.hpp"

namespace plumbline {

struct MeasuredShare {
  double measured = 0;         // of the time of all operators, collectives and messages of a step
  std::string estimated;       // operator with the most time that was not measured
  double estimated_share = 0;  // of the same time
};

/// Sums over all stages, without bubbles: a pass counts once per micro-batch, lines of phase "step" once.
MeasuredShare measured_share(const std::vector<CostLine>& lines, double microbatches);

}  // namespace plumbline
