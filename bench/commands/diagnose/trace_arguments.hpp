// Traces and a configuration, told apart among the arguments of a command.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

struct TraceArguments {
  std::vector<std::string> traces;
  std::string config;  // empty: none
};

/// Sorts by content: JSON with the keys of a trace, or a .gz file, is a trace; a folder without config.json
/// stands for the traces in it. Anything else is the configuration. Throws InputError for two of those.
TraceArguments sort_arguments(const std::vector<std::string>& arguments);

}  // namespace plumbline
