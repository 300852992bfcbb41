#include "bench/commands/help/completion.hpp"

#include <algorithm>
#include <string_view>

#include "bench/commands/help/page.hpp"

namespace plumbline {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}
const CLI::Option* find_option(const CLI::App& app, std::string_view name) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      if (!option->get_positional() && option->check_name(std::string(name))) return option;
    }
  }
  return nullptr;
}

const CLI::App* find_command(const CLI::App& app, std::string_view name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

/// The option that the words before the last leave without its value, and how many arguments stand there.
struct Place {
  const CLI::Option* waiting = nullptr;
  std::size_t arguments = 0;
};

Place place_of(const CLI::App& command, const std::vector<std::string>& words, std::size_t from) {
  Place place;
  for (std::size_t i = from; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.waiting != nullptr) {
      place.waiting = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = find_option(command, word.substr(0, word.find('=')));
      if (option != nullptr && takes_value(*option) && word.find('=') == std::string::npos)
        place.waiting = option;
    } else {
      ++place.arguments;
    }
  }
  return place;
}

void keep_those_with(const std::string& begin, Completions& completions) {
  std::erase_if(completions.candidates,
                [&](const Completion& each) { return !each.text.starts_with(begin); });
}

void put_before(const std::string& begin, Completions& completions) {
  for (Completion& each : completions.candidates) each.text = begin + each.text;
}

/// Values of an option in place of `word`; of a list, the values after its last comma.
Completions values_of(const CLI::App& command, const CLI::Option& option, const std::string& word,
                      const ValueSource& source) {
  Completions completions;
  for (const std::string& choice : choices_of(option)) completions.candidates.push_back({choice, ""});
  if (completions.candidates.empty()) completions = source(command, option);
  const std::size_t comma = word.rfind(',');
  if (option.get_delimiter() == ',' && comma != std::string::npos)
    put_before(word.substr(0, comma + 1), completions);
  return completions;
}

/// "key=" of every configuration key, or the values of the key that has been named.
Completions settings(const CLI::App& command, const std::string& word, const ValueSource& source) {
  Completions completions;
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) {
    for (const CLI::Option* option : command.get_options()) {
      if (hidden(*option) || option->get_positional() || option->get_group() == "Options") continue;
      std::string key = option->get_lnames().front();
      std::replace(key.begin(), key.end(), '-', '_');
      completions.candidates.push_back({key + "=", option->get_description()});
    }
    return completions;
  }
  std::string name = "--" + word.substr(0, equals);
  std::replace(name.begin(), name.end(), '_', '-');
  const CLI::Option* option = find_option(command, name);
  if (option == nullptr) return completions;
  completions = values_of(command, *option, "", source);
  put_before(word.substr(0, equals + 1), completions);
  return completions;
}

Completions names_of(const CLI::App& app) {
  Completions completions;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      const bool other_help =
          at != &app && (option == at->get_help_ptr() || option == at->get_help_all_ptr() ||
                         option == at->get_version_ptr());
      if (hidden(*option) || option->get_positional() || other_help) continue;
      for (const std::string& name : option->get_lnames())
        completions.candidates.push_back({"--" + name, option->get_description()});
    }
  }
  return completions;
}

Completions candidates_of(const CLI::App& app, const std::vector<std::string>& words,
                          const ValueSource& source) {
  const std::string& last = words.back();
  std::size_t at = 0;
  while (at + 1 < words.size() && words[at].starts_with("-")) ++at;
  const CLI::App* command = at + 1 < words.size() ? find_command(app, words[at]) : nullptr;
  if (command == nullptr) {
    if (at + 1 < words.size()) return {};  // no command of this name
    if (last.starts_with("-")) return names_of(app);
    Completions completions;
    for (const CLI::App* each :
         app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
      completions.candidates.push_back({each->get_name(), each->get_description()});
    return completions;
  }
  const Place place = place_of(*command, words, at + 1);
  if (place.waiting != nullptr) {
    return place.waiting->check_name("--set") ? settings(*command, last, source)
                                              : values_of(*command, *place.waiting, last, source);
  }
  if (last.starts_with("-")) {
    const std::size_t equals = last.find('=');
    if (equals == std::string::npos) return names_of(*command);
    const CLI::Option* option = find_option(*command, last.substr(0, equals));
    if (option == nullptr || !takes_value(*option)) return {};
    Completions completions = values_of(*command, *option, last.substr(equals + 1), source);
    put_before(last.substr(0, equals + 1), completions);
    return completions;
  }
  std::size_t index = 0;
  for (const CLI::Option* option : command->get_options()) {
    if (!option->get_positional()) continue;
    if (index == place.arguments || option->get_items_expected_max() > 1)
      return values_of(*command, *option, last, source);
    ++index;
  }
  return names_of(*command);
}

}  // namespace

Completions complete(const CLI::App& app, const std::vector<std::string>& words, const ValueSource& values) {
  if (words.empty()) return complete(app, {""}, values);
  Completions completions = candidates_of(app, words, values);
  keep_those_with(words.back(), completions);
  return completions;
}

std::string to_lines(const Completions& completions) {
  std::string lines;
  for (const Completion& each : completions.candidates) lines += each.text + '\t' + each.description + '\n';
  if (completions.files == Completions::Files::folders) lines += ":folders\n";
  if (completions.files == Completions::Files::any) {
    lines += ":files";
    for (const std::string& extension : completions.extensions) lines += ' ' + extension;
    lines += '\n';
  }
  return lines;
}

}  // namespace plumbline
