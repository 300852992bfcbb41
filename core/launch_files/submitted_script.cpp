#include "core/launch_files/submitted_script.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/launch_files/shell/shell_script.hpp"

namespace plumbline {
namespace {

bool is_starter(const std::string& word) {
  const std::string program = word.substr(word.rfind('/') + 1);
  return program == "sbatch" || program == "bash" || program == "sh";
}

/// NAME=VALUE of --export=ALL,NAME=VALUE.
void take_exports(const std::string& option, std::map<std::string, std::string>& variables) {
  constexpr std::string_view kExport = "--export=";
  if (!option.starts_with(kExport)) return;
  std::istringstream list(option.substr(kExport.size()));
  for (std::string each; std::getline(list, each, ',');)
    if (const std::size_t equals = each.find('='); equals != std::string::npos && equals > 0)
      variables[each.substr(0, equals)] = each.substr(equals + 1);
}

std::optional<SubmittedScript> started_by(const ShellCommand& command, const OtherFile& other,
                                          const BesideFile& beside) {
  const std::vector<ShellWord>& words = command.words;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!words[i].known || words[i].text.starts_with("-")) continue;
    auto text = other(words[i].text);
    if (!text) continue;
    SubmittedScript found{std::move(*text), words[i].text, beside};
    for (const auto& [name, value] : command.environment) found.beside.variables[name] = value;
    std::string options;
    for (std::size_t option = 1; option < i; ++option) {
      take_exports(words[option].text, found.beside.variables);
      const std::string& word = words[option].text;
      options += " " + (word == "-N" ? "--nodes" : word);
    }
    for (const auto& [name, value] : found.beside.variables)
      if (!beside.variables.contains(name)) found.beside.exported.insert(name);
    if (!options.empty()) found.text += "\n#SBATCH" + options + "\n";
    for (std::size_t argument = i + 1; argument < words.size(); ++argument)
      if (words[argument].known) found.beside.variables[std::to_string(argument - i)] = words[argument].text;
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SubmittedScript> submitted_script(std::string_view text, const std::string& name,
                                                const OtherFile& other, const BesideFile& beside) {
  if (!other) return std::nullopt;
  std::optional<SubmittedScript> only;
  const ShellScript script = read_shell_script(text, name, other, beside.variables, beside.exported);
  for (const ShellCommand& command : script.commands) {
    if (command.words.size() < 2 || !command.doubt.empty() || !is_starter(command.words.front().text))
      continue;
    auto found = started_by(command, other, beside);
    if (!found) continue;
    if (only) return std::nullopt;
    only = std::move(found);
  }
  return only;
}

bool is_start_of_script(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = text.find(' ');
  return end != std::string_view::npos && is_starter(std::string(text.substr(0, end)));
}

std::vector<std::string> words_of_command(const std::string& text) {
  std::vector<std::string> words;
  const ShellScript script = read_shell_script(": " + text, "--script-args");
  for (const ShellCommand& command : script.commands)
    for (std::size_t i = 1; i < command.words.size(); ++i) words.push_back(command.words[i].text);
  return words;
}

}  // namespace plumbline
