// Variables and functions of a shell at one point of a script. A variable that code which is not evaluated
// may set is tainted: its value is unknown, and the reason says which code.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_syntax.hpp"
#include "core/launch_files/shell/shell_unknown.hpp"

namespace plumbline {

struct ShellWord {
  std::string text;
  int line = 1;
  bool known = true;
  bool quoted = false;
  // When not known:
  UnknownCause cause = UnknownCause::unset;
  std::string reason{};  // "which the file does not set"
  bool splits = false;   // the unknown part may be several words, or none
  bool whole = false;    // nothing else is in it
};

struct ShellVariable {
  std::vector<ShellWord> items{};  // one, but of an array
  bool array = false;
  bool is_set = true;  // false: `unset`
  bool readonly = false;
  bool attributes = false;  // declare -i and others change what is assigned
  bool given = false;       // in place of its first assignment, while nothing has read it
  int order = 0;            // of its first assignment
  std::string taint{};      // the reason; empty: the value is known

  bool same_value(const ShellVariable& other) const;
};

/// Arguments of the script or the function, as a variable.
inline constexpr const char* kShellArguments = "@";

struct ShellState {
  enum class Halt { none, exits, returns, breaks, continues };
  using Bodies = std::vector<ShellNodePtr>;  // those that may be the function's; nullptr: it may have none

  std::map<std::string, ShellVariable, std::less<>> variables{};
  std::map<std::string, Bodies, std::less<>> functions{};
  /// Values that variables of the open functions had before `local`; nothing: not set.
  std::vector<std::map<std::string, ShellVariable>> locals{};
  std::string all_tainted{};       // the reason why variables that are not listed are tainted
  std::string unknown_commands{};  // the reason why a command may be a function that is not known
  std::string doubt{};             // the reason why nothing behind is evaluated
  bool stops_at_failure = false;   // set -e
  Halt halt = Halt::none;

  /// nullptr: not set.
  const ShellVariable* find(std::string_view name) const;
  /// Value of a variable that is one known text; nullptr: it is not.
  const std::string* known_value(std::string_view name) const;
  void taint(const std::string& name, const std::string& reason);
  void taint_all(const std::string& reason);
  void unset(const std::string& name);
};

bool same_values(const ShellState& a, const ShellState& b);
/// The state where either of two may be the case. `why` becomes the reason of variables that differ, with the
/// line that sets them: "which line 7 of train.sh may set, since WHY".
ShellState merged(ShellState a, const ShellState& b, const std::string& name, int line,
                  const std::string& why);

}  // namespace plumbline
