// A page of the manual as plain data: the command line's definition of a command, joined with the prose of
// command_pages.hpp. Every form of the manual is written from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/commands/help/command_pages.hpp"

namespace plumbline {

struct PageOption {
  std::vector<std::string> names;  // "--tp" with dashes; of an argument its name
  std::string value;               // "FILE", "text|csv"; empty for a flag
  std::string description;
  bool required = false;
};

struct PageGroup {
  std::string title;
  std::vector<PageOption> options;
};

struct PageCommand {
  std::string name;
  std::string summary;
};

struct Page {
  std::string name;     // "plumbline run"
  std::string summary;  // one line
  std::string synopsis;
  std::vector<PageGroup> groups;       // arguments, options, configuration keys by subject, every command's
  std::vector<PageCommand> commands;   // of the program
  const CommandPage* prose = nullptr;  // null: none has been written
};

/// The page of `app`: the program or one of its commands. Hidden options and commands are left out.
Page page_of(const CLI::App& app);

/// The values that an option takes when they are a fixed set, else nothing.
std::vector<std::string> choices_of(const CLI::Option& option);

/// Options that the manual and completion leave out.
bool hidden(const CLI::Option& option);
std::string upper(std::string text);

}  // namespace plumbline
