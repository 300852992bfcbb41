// Words that a script's words expand to. Parts that the script alone does not determine become marks
// (shell_unknown.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_command.hpp"
#include "core/launch_files/shell/shell_state.hpp"

namespace plumbline {

struct ShellSubstitution {
  std::string text;
  int line = 1;
};

/// Shared by all states of one script.
struct ShellContext {
  std::string name;  // of the script
  UnknownParts unknown{};
  std::size_t bytes = 0;  // of all expansions
  int depth = 0;
  std::vector<ShellSubstitution> substitutions{};  // with options in them; not run yet
  std::vector<ShellDefault> defaults{};            // that were taken
  std::set<std::string> own_names{};               // of variables that the script assigns somewhere

  /// Throws InputError when all expansions together are too long.
  void count(std::size_t more);
};

class ShellExpansion {
 public:
  ShellExpansion(ShellState& state, ShellContext& context) : state_(state), context_(context) {}

  /// Variables that are not set are empty from here on, as conditions have them.
  ShellExpansion& for_condition() {
    condition_ = true;
    return *this;
  }

  /// The words that a word as written becomes; none for an empty unquoted variable.
  std::vector<ShellWord> words(const ShellToken& token);
  /// The same as one word, without splitting: values of assignments.
  ShellWord whole(std::string_view text, int line);
  /// As a pattern, with \ in front of quoted characters.
  std::string pattern(std::string_view text, int line);
  /// A text as between double quotes: arithmetic, here-documents.
  std::string quoted(std::string_view text, int line);

  /// NAME=value, NAME+=value, NAME=(...) or NAME[...]=value.
  static bool assigns(const ShellToken& token);
  void assign(const ShellToken& token);
  void set(const std::string& name, ShellWord value);

  /// Value of an arithmetic expression, whose assignments are made; nothing if it is not evaluated: what it
  /// may set is tainted then.
  std::optional<std::int64_t> arithmetic(std::string_view text, int line, const std::string& shown);
  /// Taints the names of an arithmetic expression that is not evaluated, if it sets any.
  void taint_set(std::string_view text, int line, const std::string& shown);
  /// Taints every name in a text that is not evaluated.
  void taint_names(std::string_view text, const std::string& reason);

 private:
  friend class WordExpander;
  /// NAME[number]=value of an array; false: it is not evaluated.
  bool set_item(const std::string& name, std::string_view target, ShellWord& value);
  void assign_array(const std::string& name, const ShellToken& token, bool append);

  ShellState& state_;
  ShellContext& context_;
  bool condition_ = false;
};

/// `what` at a line, as the reason of a variable that it may set.
std::string shell_taint(const ShellContext& context, int line, const std::string& what);

}  // namespace plumbline
