// The commands that a launch script would run, found without running any: assignments are followed, tests of
// variables decided, everything else left out and named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/other_file.hpp"
#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 1;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellWord> job_options;   // of #SBATCH comments
  std::vector<ShellCommand> variables;  // texts and arrays at the end of the script, in order of assignment
  std::vector<std::string> notes;       // "train.sh:40: `[ -f x ]` is not decided; its branch is left out"
};

/// Files that it sources and `other` finds are read in place of that command, with its line. Throws
/// InputError as split_shell() does, and for expansions beyond 4 MiB.
ShellScript read_shell_script(std::string_view text, const std::string& name, const OtherFile& other = {});

/// The words of a command that stands in one text, such as sh -c "python train.py --lr 1".
std::vector<ShellWord> words_of_text(const ShellWord& word, const std::string& name);

}  // namespace plumbline
