#include "bench/commands/usage_errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/similar_name.hpp"
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

/// A question after up to three names that begin with this one (--recompute: --recompute-granularity and
/// others), else after a similar one; a semicolon when none is.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  constexpr std::size_t kLeast = 4;
  constexpr std::size_t kMost = 3;
  if (name == "--vpp") return ", did you mean --virtual-pipeline-chunks?";  // Megatron's own short name
  std::vector<std::string> continued;
  for (const std::string& each : known) {
    if (name.size() >= kLeast && each.starts_with(name) && continued.size() < kMost)
      continued.push_back(each);
  }
  if (continued.empty()) {
    const std::string_view similar = similar_name(name, {known.begin(), known.end()});
    if (similar.empty()) return ";";
    continued.emplace_back(similar);
  }
  return fmt::format(", did you mean {}?", fmt::join(continued, " or "));
}

/// The first required argument that was left out; null if none was.
const CLI::Option* missing_argument(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0) return option;
  }
  return nullptr;
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
      return fmt::format("unknown command \"{}\"{} `plumbline help` lists all", printable(*word),
                         did_you_mean(*word, command_names(app)));
    }
    if (option == left.end()) return "found no command, expected one; `plumbline help` lists them";
  }
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "" : command.get_name();
  const std::string page = name.empty() ? "plumbline help" : "plumbline help " + name;
  const std::string where = name.empty() ? "" : name + ": ";
  if (option != left.end()) {
    const std::string bare = option->substr(0, option->find('='));
    return fmt::format("{}unknown option {}{} `{}` lists all", where, printable(bare),
                       did_you_mean(bare, option_names(command)), page);
  }
  if (const auto setting = std::find_if(
          left.begin(), left.end(), [](const std::string& word) { return word.find('=') < word.size() - 1; });
      setting != left.end()) {
    return fmt::format("{}found the argument \"{}\", expected an option; write --set {}", where,
                       printable(*setting), printable(*setting));
  }
  if (!left.empty() && !name.empty() && (left.front().ends_with(".sh") || left.front().ends_with("batch"))) {
    return fmt::format(
        "{}found one argument more than expected: \"{}\"; write it alone, or --megatron-args \"sbatch {}\"",
        where, printable(left.front()), printable(left.front()));
  }
  if (!left.empty()) {
    return fmt::format("{}found one argument more than expected: \"{}\"; see `{}`", where,
                       printable(left.front()), page);
  }
  const bool lacks = error.get_name() == "RequiredError";
  if (const CLI::Option* left_out = lacks ? missing_argument(command) : nullptr; left_out != nullptr) {
    // A positional argument's type name is its placeholder, unless it only lists the values.
    const std::string type = left_out->get_type_name();
    const bool is_placeholder = left_out->get_positional() && type.find(':') == std::string::npos;
    return fmt::format("{}{}: missing, expected {}; see `{}`", where,
                       is_placeholder ? type : left_out->get_name(), left_out->get_description(), page);
  }
  return fmt::format("{}{}; see `{}`", where, one_line(error.what(), kLongestComplaint), page);
}

}  // namespace plumbline
