// Names of Megatron-LM's arguments as YAML files and logs have them, as flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// The flag that says the same as NAME with these values ("True", "8", "None", "['a', 'b']"). Nothing when it
/// is as without the flag (None, or a switch that is off), or when the name has no flag: then a run derives
/// it.
std::optional<LaunchArgument> megatron_argument(const std::string& name, std::vector<std::string> values,
                                                const std::string& place);

/// The flag of a switch that is off: with the value "false". Nothing for other values and names.
std::optional<LaunchArgument> megatron_switch_off(const std::string& name, const std::string& value,
                                                  const std::string& place);

/// A similar known name, as a YAML file spells it; empty when none is.
std::string nearest_megatron_name(const std::string& name);

/// The name is one of Megatron-LM's arguments.
bool is_megatron_name(const std::string& name);

}  // namespace plumbline
