// Words of a shell script: quotes, comments, arrays, here-documents. Nothing is expanded or executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct ShellToken {
  enum class Kind { word, separator, redirection, array, arithmetic };
  Kind kind = Kind::word;
  /// As written, with quotes. A separator: newline, ; ;; ;& ;;& & && | |& || ( ). An arithmetic command: the
  /// text between (( and )).
  std::string text;
  int line = 1;
  std::vector<ShellToken> items{};  // of an array, whose text is "NAME=" or "NAME+=": its words
  std::string descriptor{};         // in front of a redirection: "2", "{fd}"
  std::string document{};           // text of a here-document whose variables are expanded
};

struct ShellTokens {
  std::vector<ShellToken> tokens;
  std::vector<ShellToken> job_options;  // "--nodes=4" of comments such as #SBATCH --nodes=4
};

/// Length of the variable name that `text` begins with; 0: none.
std::size_t name_length(std::string_view text);
/// True for a name of a variable and nothing else.
inline bool is_shell_name(std::string_view text) {
  return !text.empty() && name_length(text) == text.size();
}

/// Throws InputError for an unfinished quote or bracket, for what it cannot take apart as bash does, and for
/// more than 200,000 words. All words get the line `line` unless it is 0.
ShellTokens split_shell(std::string_view text, const std::string& name, int line = 0);

}  // namespace plumbline
