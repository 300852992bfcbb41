// The commands that a launch script would run, found without running any. Code is evaluated as bash does; a
// variable that other code may set is unknown from there on.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/other_file.hpp"
#include "core/launch_files/shell/shell_command.hpp"

namespace plumbline {

/// Files that it sources and `other` finds are read in place of that command, with its line. Texts that
/// another shell runs (sh -c "python train.py --lr 1") become the words of their command. Throws InputError
/// as parse_shell() does, and for expansions beyond 4 MiB.
/// `environment`: variables that are set before; unless they are `exported` ones, the script's own first
/// assignment of each is left out, if nothing has read it before.
ShellScript read_shell_script(std::string_view text, const std::string& name, const OtherFile& other = {},
                              const std::map<std::string, std::string>& environment = {},
                              const std::set<std::string>& exported = {});

}  // namespace plumbline
