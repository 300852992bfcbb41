// The options by which every command that takes a configuration takes it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {

/// Configuration given on the command line; lives as long as the CLI::App.
struct ConfigOptions {
  std::string source;                 // a file, a preset, a folder, or empty: see ConfigFile
  std::vector<std::string> settings;  // "key=value"
  std::vector<std::string> ignored;   // keys of the file
  std::string arguments;              // of a launch script
  bool run_script = false;            // in a sandbox
  Overrides flags;                    // from --tp 2 and the like

  /// `--set` first, then flags. Throws InputError for a setting without "=".
  Overrides overrides() const;
  /// The configuration, with an accelerator's short name replaced by its full one.
  RunConfig load() const;
  /// The same, and says on standard error what was taken for a key that nothing gives.
  RunConfig load_with_notes() const;
  /// True if an option or `--set` gives this key; `key` is its canonical name.
  bool gives(std::string_view key) const;
};

/// Adds the argument CONFIG (or the name `what`), `--set key=value` and one flag per configuration key. The
/// argument may be left out: options can express everything.
void add_config_options(CLI::App& command, ConfigOptions& options, const std::string& what = "CONFIG");

}  // namespace plumbline
