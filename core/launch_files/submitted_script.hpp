// Scripts that another one hands to sbatch or bash, with their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

struct SubmittedScript {
  std::string text;  // options of sbatch behind it, as comments, which count over its own
  std::string name;
  BesideFile beside;  // with its arguments and what --export sets
};

/// The only file that a command of `text` starts by sbatch, bash or sh; nothing when there is none, or
/// several.
std::optional<SubmittedScript> submitted_script(std::string_view text, const std::string& name,
                                                const OtherFile& other, const BesideFile& beside);

/// "sbatch --nodes=4 job.sh": such a command.
bool is_start_of_script(std::string_view text);
/// Words of a command as a shell splits them, without expansions that are not known.
std::vector<std::string> words_of_command(const std::string& text);

}  // namespace plumbline
