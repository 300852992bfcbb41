// The command line as a whole: every command, and the options that all of them take.
#pragma once

#include <string_view>

#include "bench/commands/commands.hpp"

namespace plumbline {

/// Adds everything to `app`, which is new and is called "plumbline"; only one command where the first
/// argument already names it. Parsing then puts the chosen command's work into `action`. Both must outlive
/// the parsing and the work.
void add_commands(CLI::App& app, CommandAction& action, std::string_view first_argument = "");

}  // namespace plumbline
