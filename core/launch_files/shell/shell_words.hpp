// Words of a shell script: quotes, comments, arrays, here-documents. Nothing is expanded or executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct ShellToken {
  enum class Kind { word, separator, redirection, array };
  Kind kind = Kind::word;
  std::string text;  // as written, with quotes; a separator: newline, ; ;; & && | || ( )
  int line = 1;
  std::vector<ShellToken> items{};  // of an array: its words; text is then "NAME=" or "NAME+="
};

struct ShellTokens {
  std::vector<ShellToken> tokens;
  std::vector<ShellToken> job_options;  // "--nodes=4" of comments such as #SBATCH --nodes=4
};

/// Throws InputError for an unfinished quote or bracket, or more than 200,000 words.
ShellTokens split_shell(std::string_view text, const std::string& name);

}  // namespace plumbline
