// Selection among tables, one per working set, by the cost of an operand.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/tables/load.hpp"

namespace plumbline {

/// Share of the uses that come from the working set of each table: not negative, sum 1. `levels`: measured,
/// or empty.
std::vector<double> table_shares(const std::vector<OperatorTimes>& tables, const CacheLevels& levels,
                                 const Reuse& reuse);

}  // namespace plumbline
