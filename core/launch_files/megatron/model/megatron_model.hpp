// The model that Megatron-LM's arguments describe.
#pragma once

#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/model/megatron_dialect.hpp"

namespace plumbline {

/// Its shape as a config.json of the family that has these layers. Throws InputError (place, flag, found,
/// expected) for sizes that are missing or cannot be, and for layers that no family has. A vocabulary that
/// no argument gives is taken from the preset of this shape, with a note.
std::string megatron_model(LaunchArguments& arguments, const MegatronDialect& dialect);

}  // namespace plumbline
