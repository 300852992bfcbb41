// Keys that a configuration gives a value which cannot matter.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// A line for each key that is not at its default but needs another key's value, which is not there:
/// "fp8_margin: found 2, without effect; needs fp8_format".
std::vector<std::string> idle_keys(const RunConfig& config);

}  // namespace plumbline
