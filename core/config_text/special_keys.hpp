// Keys whose texts are read in ways of their own.
#pragma once

#include <vector>

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// All of RunConfig::optimizer, in the order of the documentation.
std::vector<ConfigKey> optimizer_keys();
ConfigKey precision_key();
ConfigKey memory_budget_key();
ConfigKey hierarchical_key();
ConfigKey capacity_key(const char* name, double MixtureConfig::*factor_of);
ConfigKey seed_key();

}  // namespace plumbline
