// Manual text about each command beyond its options: prose and examples, from pages/*.md. The options
// themselves are read from the command line's definition (page.hpp), so that they cannot differ from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/commands/help/described.hpp"
#include "core/base/error.hpp"

namespace plumbline {

struct Example {
  std::string command;  // a whole line, starting with "plumbline"
  std::string what;     // its purpose, without a full stop
};

struct CommandPage {
  std::string name;  // "predict"; empty: the program itself
  std::vector<std::string> paragraphs;
  std::vector<Example> examples;  // each is parsed by a test
  std::vector<Described> files;
  std::vector<ExitCode> exit_codes;
  std::vector<std::string> see_also;  // other commands and topics
};

/// A page from its file (bench/commands/help/README.md has the form); throws std::logic_error, naming the
/// line, for an invalid one.
CommandPage read_command_page(std::string_view markdown);

/// One page per command, the program's own first.
const std::vector<CommandPage>& command_pages();
/// nullptr when there is none.
const CommandPage* find_command_page(std::string_view name);

/// "The configuration does not fit its memory."
std::string_view meaning_of(ExitCode code);

}  // namespace plumbline
