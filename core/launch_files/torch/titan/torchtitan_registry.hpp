// Configurations that torchtitan registers in Python, by the name that --config takes.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Arguments of a command with --config, in the names of torchtitan's job files: those of the configuration,
/// then its own. Counts of tokens become sequences. Throws InputError for another configuration.
std::vector<LaunchArgument> torchtitan_registered(const LaunchArgument& config,
                                                  std::vector<LaunchArgument> flags);

}  // namespace plumbline
