// Tests of shell scripts: [ "$A" = b ] and [[ $A == b* ]]. Words may hold marks of unknown parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {

enum class Truth { no, yes, unknown };

constexpr Truth truth_of(bool value) {
  return value ? Truth::yes : Truth::no;
}
constexpr Truth not_of(Truth truth) {
  return truth == Truth::unknown ? truth : truth_of(truth == Truth::no);
}
Truth any_of(Truth one, Truth other);
Truth all_of(Truth one, Truth other);

/// A word of [[ ]].
struct TestWord {
  std::string text;
  std::string pattern;     // the same as a pattern, with \ in front of quoted characters
  bool operation = false;  // without quotes and expansions
};

/// The truth of the words between [ and ]; unknown for tests of files and of unknown values.
Truth bracket_test(const std::vector<ShellWord>& words);
/// Evaluates [[ and ]].
Truth double_bracket_test(const std::vector<TestWord>& words);

/// A pattern of text, *, ? and \; unknown for others.
Truth matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace plumbline
