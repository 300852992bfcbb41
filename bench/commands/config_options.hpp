// The options by which every command that takes a configuration takes it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/config/run_config.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {

/// What was given on the command line; lives as long as the CLI::App.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> settings;  // "key=value"
  Overrides flags;                    // from --tp 2 and the like

  /// `--set` first, then flags. Throws InputError for a setting without "=".
  Overrides overrides() const;
  RunConfig load() const { return load_run_config(file, overrides()); }
};

/// Adds the positional CONFIG, `--set key=value` and one flag per configuration key.
void add_config_options(CLI::App& command, ConfigOptions& options, const std::string& what = "CONFIG.yaml");

}  // namespace plumbline
