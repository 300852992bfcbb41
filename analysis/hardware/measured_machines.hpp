// Machines whose steps take operators' times from measured tables.
#pragma once

#include <map>
#include <string>

#include "analysis/hardware/machine.hpp"

namespace plumbline {

/// Gives them Device::measured: GB300 its products and attention, H100, GB200 and B300 attention, all of them
/// and H200 NCCL's collectives within a host. Elsewhere, and for other operators, constants stay: they stand
/// for more than single operators (analysis/silicon/README.md).
void set_measured(std::map<std::string, Machine, std::less<>>& machines);

}  // namespace plumbline
