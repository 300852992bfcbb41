// Range of memory needed by steps whose routing is not known yet, and the share of steps that exceed the
// budget.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/routing/drawn_routing.hpp"

namespace plumbline {

/// Memory of the fullest rank over `routings` steps, each with its own routing.
struct RoutingInterval {
  int routings = 0;
  Bytes low;               // 2 of 1,000 steps need less
  Bytes half;              // every other one
  Bytes high;              // 2 of 1,000 need more
  double over_budget = 0;  // share of those that need more than the budget
};

/// Memory needed by the fullest rank in each of `routings` steps, ascending; drawn from `seed` as
/// draw_routing() says.
std::vector<Bytes> needs_of_routings(const RunConfig& config, const Schedule& schedule, const MeanLoad& load,
                                     int routings, std::uint64_t seed);
/// Interval of these needs; `budget` 0: no bound.
RoutingInterval interval_of(const std::vector<Bytes>& needs, Bytes budget);

}  // namespace plumbline
