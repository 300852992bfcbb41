// A launch file of another framework, read as a configuration.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

/// Bytes of a launch file, but for logs.
inline constexpr std::size_t kMostLaunchBytes = std::size_t{1} << 20;

/// Files of at most 1 MiB that the launch file `path` names: from the current folder, from its own, or from
/// one above it.
OtherFile files_near(const std::string& path);

/// Reads `text` if it is a launch file of a known framework, judged by its content; `name` stands for the
/// file in messages. Nothing is executed. Throws InputError (one line: place, found, expected) when it is one
/// and cannot be read.
/// `beside` fills what a script leaves to its environment, and counts over the file's values.
std::optional<LaunchFile> read_launch_file(std::string_view text, const std::string& name,
                                           const OtherFile& other = {}, const BesideFile& beside = {});

/// Reads a log of Megatron-LM that is larger than kMostLaunchBytes, for its arguments; nothing for a smaller
/// file or none. Throws InputError for any other large file.
std::optional<LaunchFile> read_long_log(const std::string& path, const std::string& name,
                                        const BesideFile& beside = {});

}  // namespace plumbline
