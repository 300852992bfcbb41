// Memory needed by the steps of an MoE model whose routing is not known yet.
#pragma once

#include <string>

#include "analysis/memory/routing_interval.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// Interval over `routings` routings drawn from the mean load of moe_routing, with the configuration's seed.
/// Throws InputError if memory does not depend on the routing.
RoutingInterval routing_interval(const RunConfig& config, int routings, Bytes budget);
OrderedJson to_json(const RoutingInterval& interval);
/// Some lines of text. `budget` 0: no bound.
std::string describe(const RoutingInterval& interval, const RunConfig& config, Bytes budget);

}  // namespace plumbline
