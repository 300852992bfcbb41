// Commands that a launch script would run.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/shell/shell_state.hpp"

namespace plumbline {

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 1;
  std::string doubt{};     // the reason why it may not run, or not with these words; empty: it does
  std::string presumed{};  // a note on what it takes for granted
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellWord> job_options;   // of #SBATCH comments
  std::vector<ShellCommand> variables;  // texts and arrays at the end of the script, in order of assignment
  std::vector<std::string> notes;       // "train.sh:40: `source x.sh` is not read"
};

}  // namespace plumbline
