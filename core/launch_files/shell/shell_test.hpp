// Tests of shell scripts: [ "$A" == b ].
#pragma once

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

/// The truth of the words between the brackets; unknown for tests of files and of unknown values.
Truth shell_test(const std::vector<ShellWord>& words);

/// A pattern of text and *.
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace plumbline
