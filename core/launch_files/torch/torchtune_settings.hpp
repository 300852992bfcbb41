// Recipes of torchtune, as configuration keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Reads keys of a recipe (full or LoRA fine-tuning on one or several devices) of torchtune.
LaunchFile torchtune_launch(std::vector<LaunchArgument> arguments, const BesideFile& beside);
/// Reads a recipe in YAML; nothing when the text is none.
std::optional<LaunchFile> torchtune_file(std::string_view text, const std::string& name,
                                         const BesideFile& beside);

}  // namespace plumbline
