// Megatron-LM's arguments in shell scripts, in argument lists, and in the list that a run prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"
#include "core/launch_files/megatron/megatron_settings.hpp"

namespace plumbline {

/// Name of arguments that the command line gives, in place of a file's.
inline constexpr std::string_view kMegatronArguments = "--megatron-args";

struct FoundArguments {
  std::vector<LaunchArgument> arguments;
  LauncherFacts launcher;
  std::vector<std::string> notes;
};

/// The arguments of the training command of a script, or of a list of arguments. Nothing when it has none.
/// `other` finds files that the script sources. Values that the script leaves open are those of `beside`, by
/// its variables or by the key that a flag sets. Throws InputError when several commands train.
std::optional<FoundArguments> arguments_of_script(std::string_view text, const std::string& name,
                                                  const OtherFile& other = {}, const BesideFile& beside = {});

/// The arguments in a log of a run ("  num_layers ........ 32"); nothing when it has none.
std::optional<FoundArguments> arguments_of_log(std::string_view text, const std::string& name);

}  // namespace plumbline
