// Completion of a command line in a shell, from the definition of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace plumbline {

struct Completion {
  std::string text;
  std::string description;  // may be empty
};

struct Completions {
  enum class Files { none, folders, any };
  std::vector<Completion> candidates;
  Files files = Files::none;            // additions by the shell itself
  std::vector<std::string> extensions;  // with Files::any: only these, "yaml"; empty: all
};

/// Completions that the definition of the command line does not know: the values of an option beyond a fixed
/// set, or of a configuration key that `--set KEY=` names (then `option` is that key's own option).
using ValueSource = std::function<Completions(const CLI::App& command, const CLI::Option& option)>;

/// Candidates for the last of `words`, which may be empty or incomplete; the earlier words were typed after
/// the program's name. "--option=value" and "--set key=value" are completed too: their candidates include the
/// text before the "=".
Completions complete(const CLI::App& app, const std::vector<std::string>& words, const ValueSource& values);

/// One candidate on a line, "text<tab>description"; then, if the shell may add files, ":files", ":folders" or
/// ":files yaml yml".
std::string to_lines(const Completions& completions);

/// The script for "bash", "zsh" or "fish". It asks the program for candidates: `plumbline complete -- WORDS`.
std::string completion_script(const std::string& shell);

}  // namespace plumbline
