// From the command line's names to a configuration.
#pragma once

#include <map>
#include <string>

#include "core/config/run_config.hpp"
#include "core/config_text/config_key.hpp"
#include "core/config_text/overrides.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline {

/// Overrides of the command line, and what they are to a launch file.
struct CommandLine {
  std::map<std::string, ConfigText> settings;  // canonical key → text
  BesideFile beside;
};

/// A name that is no key is a variable of the script `source` if the script has that word. Throws InputError
/// for any other unknown key.
CommandLine command_line(const std::string& source, const Overrides& overrides);

/// Reads `source` (ConfigFile: a YAML file, a preset, a Hugging Face folder, or nothing) and applies
/// overrides. Keys may be given in their short or dashed form (core/config_text/config_keys.hpp). A relative
/// path in a file is relative to the file, one in an override to the current folder. Throws InputError: file,
/// line, key, what was found and expected.
///
/// Divisibility of sizes is left to why_invalid, but for a world_size that contradicts the parallel sizes. If
/// global_batch_size is not given and its default is no multiple of micro_batch_size x data parallel size,
/// that product is taken; `note`, if any, then gets a line about it, after those about a launch file. Lines
/// are joined by "\nnote: ".
/// `text`: content to read in place of that of the file `source`.
RunConfig load_run_config(const std::string& source, const Overrides& overrides, std::string* note = nullptr,
                          const std::string* text = nullptr);

/// Throws InputError as load_run_config does for a source that cannot be read, one that is no single
/// configuration, and unknown keys: faults before the first look at a value.
void check_readable(const std::string& source, const Overrides& overrides);

}  // namespace plumbline
