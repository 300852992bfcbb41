// Options --vary, --diff and --patch of `predict`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/commands/config_options.hpp"

namespace plumbline {

struct VaryOptions {
  std::vector<std::string> vary;  // "tp=2,4,8"
  std::vector<std::string> diff;  // two: a row, settings, or another configuration
  bool patch = false;

  /// The option that is given, for messages; nullptr: none is.
  const char* given() const;
};

void add_vary_options(CLI::App& command, VaryOptions& options);

/// Predicts all of them and prints tables or JSON. Returns the exit code: does not fit if none does.
int predict_varied(const ConfigOptions& config, const VaryOptions& options, bool json, bool quiet);

}  // namespace plumbline
