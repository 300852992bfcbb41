// What the actions of a schedule cost under given costs.
#pragma once

#include <vector>

#include "analysis/simulate/costs.hpp"

namespace plumbline {

/// Seconds by stage × kActionTypes + type.
std::vector<double> action_prices(const Costs& costs);

}  // namespace plumbline
