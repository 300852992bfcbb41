// Messages about a command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace plumbline {

/// One line for an error of CLI11 while it parsed for `app`. It has the text found, the nearest command or
/// option, and the page of the manual that has the rest.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace plumbline
