// The command line as a whole: every command, and the options that all of them take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/commands/commands.hpp"

namespace plumbline {

/// Adds everything to `app`, which is new and is called "plumbline"; only one command where the first
/// argument already names it, none for "--version". Parsing then puts the chosen command's work into
/// `action`. Both must outlive the parsing and the work.
void add_commands(CLI::App& app, CommandAction& action, std::string_view first_argument = "");

/// The words of a command line. A Boolean configuration key may stand alone: --sequence-parallel is
/// --sequence-parallel=true.
std::vector<std::string> with_switches_set(std::vector<std::string> arguments);

}  // namespace plumbline
