// Operators of ${NAME...} on a value: ${A%% *}, ${A/x/y}, ${A,,}. Words of braces: {1..4}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct ShellOperator {
  std::string_view sign;  // # ## % %% / // /# /% ^ ^^ , ,,
  std::string pattern{};  // with \ in front of quoted characters
  std::string with{};     // replacement
};

/// The sign that `text`, behind the name, begins with; empty: none of them.
std::string_view shell_operator_sign(std::string_view text);
/// The value after the operator; nothing when the pattern is not evaluated, or the texts are long.
std::optional<std::string> shell_operated(std::string_view value, const ShellOperator& by);

/// Braces that bash would expand: {a,b} or {1..3}.
bool has_shell_braces(std::string_view text);
/// Words of one list {a,b} or row {1..4} between plain characters; empty: `text` is not evaluated.
std::vector<std::string> shell_braces(std::string_view text);

}  // namespace plumbline
