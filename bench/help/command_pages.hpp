// What the manual says about each command beyond its options: prose and examples. The options themselves are
// read from the command line's definition (page.hpp), so that they cannot differ from it.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {

struct Example {
  std::string_view command;  // a whole line, starting with "plumbline"
  std::string_view what;     // what it does, without a full stop
};

struct Described {
  std::string_view name;
  std::string_view what;
};

struct CommandPage {
  std::string_view name;  // "predict"; empty: the program itself
  std::vector<std::string_view> paragraphs;
  std::vector<Example> examples;  // each is parsed by a test
  std::vector<Described> files;
  std::vector<ExitCode> exit_codes;
  std::vector<std::string_view> see_also;  // other commands and topics
};

/// One page per command, the program's own first.
const std::vector<CommandPage>& command_pages();
/// nullptr when there is none.
const CommandPage* find_command_page(std::string_view name);

/// "The configuration does not fit its memory."
std::string_view meaning_of(ExitCode code);

}  // namespace plumbline
