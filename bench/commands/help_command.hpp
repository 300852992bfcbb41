// The manual as part of the command line.
#pragma once

#include "bench/commands/commands.hpp"

namespace plumbline {

/// Makes the manual's pages the text of --help; call before any command is added, since commands inherit it.
void use_manual(CLI::App& app);
void add_help_command(CLI::App& app, CommandAction& action);

}  // namespace plumbline
