// What is said about a command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace plumbline {

/// One line for what CLI11 refused while it parsed for `app`: what was found, the nearest command or option that
/// there is, and which page of the manual has the rest.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace plumbline
