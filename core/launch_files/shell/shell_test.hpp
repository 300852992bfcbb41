// Tests of shell scripts: [ "$A" = b ] and [[ $A == b* ]]. Words may hold marks of unknown parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_expansion.hpp"
#include "core/launch_files/shell/shell_pattern.hpp"

namespace plumbline {

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

}  // namespace plumbline
