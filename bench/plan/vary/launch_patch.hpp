// Changes of a launch file, or of a file of plumbline's keys, that set other values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

struct LaunchPatch {
  std::string text;                // the changed file
  std::string diff;                // its changed lines, as `diff -u` prints them; empty: none
  std::vector<std::string> notes;  // a line for each setting that no line gives, and for keys that follow
};

/// Configuration of the file with this content, with settings beside it. Throws InputError.
using LoadText = std::function<RunConfig(const std::string& text, const Overrides& beside)>;

/// Puts `wanted` into the file `source`, of which `given` stays beside it. Every change is read back: the new
/// content gives the configuration that the old one gives with the setting beside it, but for at most three
/// keys that the framework derives, which are noted; or it is not made.
/// Throws InputError for a source that is no file.
LaunchPatch patch_launch(const std::string& source, const Overrides& given, const Overrides& wanted,
                         const LoadText& load);

}  // namespace plumbline
