// Nested keys of TOML, YAML and JSON files as flat arguments: "training.seq_len".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_keys.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Arguments in the order of the file, with the line of each; a list is an argument of several values, an
/// empty one has the value "[]". Throws InputError (place, found, expected) for other text, and for more
/// than 10,000 values or 32 levels. `name` stands for the file in messages.
std::vector<LaunchArgument> toml_arguments(std::string_view text, const std::string& name);
std::vector<LaunchArgument> yaml_arguments(const std::string& text, const std::string& name);
/// The same without lines.
std::vector<LaunchArgument> json_arguments(const Json& object, const std::string& name);

}  // namespace plumbline
