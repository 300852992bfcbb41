// A configuration as another framework's launch file, for the hosts of its hardware.
#pragma once

#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// As export_launch; usual hosts where the configuration names no accelerator.
std::string launch_text(const RunConfig& config, const std::string& framework);

}  // namespace plumbline
