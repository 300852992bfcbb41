// Launch commands by the name of their framework.
#pragma once

#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// The launch command of `framework`. Throws InputError for an unknown one, and for what it cannot say.
std::string export_launch(const RunConfig& config, const std::string& framework);

}  // namespace plumbline
