#include "bench/commands/usage_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestComplaint = 400;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

/// With dashes, the command's and those of every command.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string_view nearest(const std::string& name, const std::vector<std::string>& known) {
  return nearest_name(name, {known.begin(), known.end()});
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::vector<std::string> left = app.remaining(true);
  const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) {
    return word.size() > 1 && word.front() == '-';
  });
  if (chosen.empty()) {
    const auto word = std::find_if(left.begin(), left.end(),
                                   [](const std::string& each) { return !each.starts_with("-"); });
    if (word != left.end()) {
      return fmt::format("unknown command \"{}\", did you mean {}? `plumbline help` lists all",
                         printable(*word), nearest(*word, command_names(app)));
    }
    if (option == left.end()) return "found no command, expected one; `plumbline help` lists them";
  }
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "" : command.get_name();
  const std::string page = name.empty() ? "plumbline help" : "plumbline help " + name;
  const std::string where = name.empty() ? "" : name + ": ";
  if (option != left.end()) {
    const std::string bare = option->substr(0, option->find('='));
    return fmt::format("{}unknown option {}, did you mean {}? `{}` lists all", where, printable(bare),
                       nearest(bare, option_names(command)), page);
  }
  if (!left.empty()) {
    return fmt::format("{}found one argument more than expected: \"{}\"; see `{}`", where,
                       printable(left.front()), page);
  }
  return fmt::format("{}{}; see `{}`", where, one_line(error.what(), kLongestComplaint), page);
}

}  // namespace plumbline
