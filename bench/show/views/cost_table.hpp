// Predicted time of every operator, as a table.
#pragma once

#include <string>
#include <vector>

#include "analysis/time/stage/cost_lines.hpp"

namespace plumbline {

/// Breakdown by stage, longest first.
std::string cost_table(std::vector<CostLine> lines);

}  // namespace plumbline
