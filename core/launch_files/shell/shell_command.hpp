// Commands that a launch script would run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/launch_files/shell/shell_state.hpp"

namespace plumbline {

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 1;
  std::string doubt{};     // the reason why it may not run, or not with these words; empty: it does
  std::string presumed{};  // a note on what it takes for granted
  std::map<std::string, std::string> environment{};  // known values that are set before it on its line
};

/// A value in the place of a variable that the script leaves to its environment: ${NNODES:-1}.
struct ShellDefault {
  std::string name;
  std::string text;   // as written
  std::string value;  // a whole number
  int line = 1;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellWord> job_options;   // of #SBATCH comments
  std::vector<ShellCommand> variables;  // texts and arrays at the end of the script, in order of assignment
  std::vector<std::string> notes;       // "train.sh:40: `source x.sh` is not read"
  std::vector<ShellDefault> defaults;   // whole numbers that the script takes, in order
};

}  // namespace plumbline
