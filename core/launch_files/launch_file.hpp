// A launch file of another framework, read as a configuration.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/launch_settings.hpp"

namespace plumbline {

/// Reads `text` if it is a launch file of a known framework, judged by its content; `name` stands for the
/// file in messages. Nothing is executed. Throws InputError (one line: place, found, expected) when it is one
/// and cannot be read.
std::optional<LaunchFile> read_launch_file(std::string_view text, const std::string& name);

}  // namespace plumbline
