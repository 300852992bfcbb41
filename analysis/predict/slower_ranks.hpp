// Costs of a pipeline some of whose ranks are slower than predicted.
#pragma once

#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The costs with every action of pipeline rank r multiplied by longer[r]; messages and collectives between
/// stages as before. Throws InputError unless there is one factor per rank.
Costs with_slower_ranks(Costs costs, const Schedule& schedule, const std::vector<double>& longer);

}  // namespace plumbline
