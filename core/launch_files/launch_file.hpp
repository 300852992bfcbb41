// A launch file of another framework, read as a configuration.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/launch_settings.hpp"

namespace plumbline {

/// Text of a file that a launch file names, by the path as written; nothing when there is none.
using OtherFile = std::function<std::optional<std::string>(const std::string& path)>;

/// Files of at most 1 MiB that the launch file `path` names: from the current folder, from its own, or from
/// one above it.
OtherFile files_near(const std::string& path);

/// Reads `text` if it is a launch file of a known framework, judged by its content; `name` stands for the
/// file in messages. Nothing is executed. Throws InputError (one line: place, found, expected) when it is one
/// and cannot be read.
std::optional<LaunchFile> read_launch_file(std::string_view text, const std::string& name,
                                           const OtherFile& other = {});

}  // namespace plumbline
