// Which of a list of tables, one per working set, tell what an operand costs.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/processor_contention.hpp"

namespace plumbline {

/// The share of the uses that come from the working set of each table: not negative, 1 together. `levels`: measured, or empty.
std::vector<double> table_shares(const std::vector<OperatorTimes>& tables, const CacheLevels& levels,
                                 const Reuse& reuse);

}  // namespace plumbline
