// Keys whose texts are read in ways of their own.
#pragma once

#include "core/config_text/config_key.hpp"

namespace plumbline {

ConfigKey optimizer_key();
ConfigKey precision_key();
ConfigKey memory_budget_key();
ConfigKey hierarchical_key();
ConfigKey capacity_key(const char* name, double MixtureConfig::*factor_of);
ConfigKey seed_key();

}  // namespace plumbline
