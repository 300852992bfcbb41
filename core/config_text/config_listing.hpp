// A configuration written out: every key with its value, as lines and as a file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Every configuration key with its value, as text, in the order of the documentation.
std::vector<std::pair<std::string, std::string>> describe(const RunConfig& config);

/// A configuration file that load_run_config reads back to the same configuration, wherever it is: the
/// model is inline, paths are absolute.
std::string to_yaml(const RunConfig& config);

}  // namespace plumbline
