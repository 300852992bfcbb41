// The accelerator that a configuration means by a short name.
#pragma once

#include "core/config/run_config.hpp"

namespace plumbline {

/// Puts the preset's name in place of a short one (h100), with a note on standard error, once each.
void name_hardware(RunConfig& config);

}  // namespace plumbline
