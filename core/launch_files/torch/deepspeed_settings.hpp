// DeepSpeed's configuration as keys of a configuration.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Adds what a DeepSpeed configuration says to `file`. Values "auto" are left to what `file` has already.
/// Throws InputError (place, key, found, expected) for a value that no configuration has.
void add_deepspeed(const std::vector<LaunchArgument>& arguments, LaunchFile& file);

/// A DeepSpeed configuration alone, which names no model.
LaunchFile deepspeed_launch(const std::vector<LaunchArgument>& arguments, const BesideFile& beside = {});

}  // namespace plumbline
