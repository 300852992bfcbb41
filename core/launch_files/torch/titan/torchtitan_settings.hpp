// A job configuration of torchtitan as a configuration.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Every key is used, named as without effect, or refused. Names of before 2025 are taken as well. Throws
/// InputError (place, key, found, expected) for a value that no configuration has.
LaunchFile torchtitan_launch(std::vector<LaunchArgument> arguments, const BesideFile& beside = {});

}  // namespace plumbline
