// Resolves the short name of an accelerator in a configuration.
#pragma once

#include "core/config/run_config.hpp"

namespace plumbline {

/// Replaces a short name (h100) by the preset's name, with a note on standard error, once each.
void name_hardware(RunConfig& config);

}  // namespace plumbline
