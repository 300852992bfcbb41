// Launch scripts run in a sandbox, for the commands that they start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/beside_file.hpp"

namespace plumbline {

/// The commands that a script started, as a script of constants.
struct ScriptRun {
  std::string text;
  std::vector<std::string> notes;
  std::string ending;  // "it ended with status 1: ..."; empty: with status 0
};

/// Runs the script `beside.run_script`, whose text is `text`, with the variables of `beside`. Throws
/// InputError, in which `name` stands for the file, when this machine makes no sandbox, the script went over
/// a limit, or started nothing.
ScriptRun run_script(std::string_view text, const std::string& name, const BesideFile& beside);

}  // namespace plumbline
