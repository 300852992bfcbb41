// Patterns of shell scripts, and truths that may be unknown.
#pragma once

#include <string_view>

namespace plumbline {

enum class Truth { no, yes, unknown };

constexpr Truth truth_of(bool value) {
  return value ? Truth::yes : Truth::no;
}
constexpr Truth not_of(Truth truth) {
  return truth == Truth::unknown ? truth : truth_of(truth == Truth::no);
}
/// A pattern of text, *, ?, sets such as [a-z] and \; unknown for others, and for marks of unknown parts.
Truth matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace plumbline
