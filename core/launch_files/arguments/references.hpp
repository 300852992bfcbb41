// References of configurations to their own keys.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Replaces values that are "${a.b}", as OmegaConf has them, by the value of the key; others stay.
void resolve_references(std::vector<LaunchArgument>& arguments);

}  // namespace plumbline
