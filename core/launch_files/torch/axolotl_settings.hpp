// Configurations of Axolotl: TrainingArguments by other names, with defaults of its own.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

/// Every key is used, named as without effect or approximated, or refused. Throws InputError (place, key,
/// found, expected).
LaunchFile axolotl_launch(std::vector<LaunchArgument> arguments, const OtherFile& other,
                          const BesideFile& beside);

}  // namespace plumbline
