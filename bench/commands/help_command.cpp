// `plumbline help`: the manual, and how every command's --help is written.
#include "bench/commands/help_command.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/commands/compatibility_page.hpp"
#include "bench/commands/help/config_notes.hpp"
#include "bench/commands/help/glossary.hpp"
#include "bench/commands/help/man_page.hpp"
#include "bench/commands/help/short_page.hpp"
#include "bench/commands/help/text_page.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

/// Gives CLI11 the text of --help.
class ManualFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode mode) const override {
    const Page page = page_of(*app);
    const TextStyle style = text_style_of_standard_output();
    return mode == CLI::AppFormatMode::All ? text_page(page, style) : short_page(page, style);
  }
};

struct HelpOptions {
  std::vector<std::string> topic;
  std::string format = "text";
};

/// All configuration keys, as the pages of the commands that take them have them.
Page configuration_page(const CLI::App& app) {
  Page page = page_of(*app.get_subcommand("run"));
  std::erase_if(page.groups, [](const PageGroup& group) {
    return group.title == "Arguments" || group.title == "HelpOptions" || group.title == "Every command";
  });
  page.name = "plumbline configuration";
  page.summary = "keys of a configuration file, also options of every command that takes one";
  page.synopsis = "key: value in CONFIG.yaml, --set key=value, or --key value";
  page.prose = find_command_page("configuration");
  return page;
}

/// "zero_stage", "zero-stage", "--zero-stage", "tp"; null for other topics.
const ConfigKey* key_of_topic(std::string_view topic) {
  while (topic.starts_with('-')) topic.remove_prefix(1);
  return find_config_key(topic);
}

std::string key_text(const ConfigKey& key, const TextStyle& style) {
  static const RunConfig kDefaults;
  const Described* note = find_config_note(key.name);
  const std::string otherwise = key.print(kDefaults);
  std::string text = emphasized(key.name, style) + "\n";
  const auto add = [&](const std::string& words) { text += wrapped(words, style.width, 6); };
  if (note != nullptr) add(note->meaning + ".");
  add("Values: " + key.expected + ".");
  add("Default: " + (otherwise.empty() ? "none" : otherwise) + ".");
  if (key.only_with_teacher) add("Needs a teacher.");
  for (const std::string& line : when_without_effect(key.name)) add(line);
  add(fmt::format("As an option: --{}{}; in a file: {}: VALUE; anywhere: --set {}=VALUE.", key.flag(),
                  key.alias.empty() ? "" : " or --" + key.alias, key.name, key.name));
  return text;
}

/// A question after the command, key or term of a similar name; empty when none is.
std::string did_you_mean_topic(const CLI::App& app, const std::string& topic) {
  std::vector<std::string> names = {"configuration", "compatibility", "glossary"};
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    names.push_back(command->get_name());
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  for (const Term& term : glossary()) names.push_back(term.name);
  const std::string_view similar = similar_name(topic, {names.begin(), names.end()});
  return similar.empty() ? "" : fmt::format("; did you mean {}?", similar);
}

int print_help(const CLI::App& app, const HelpOptions& options) {
  std::string topic;
  for (const std::string& word : options.topic) topic += (topic.empty() ? "" : " ") + word;
  const TextStyle style = text_style_of_standard_output();
  const auto print = [&](const Page& page) {
    fmt::print("{}", options.format == "man" ? man_page(page, plumbline_version()) : text_page(page, style));
    return static_cast<int>(ExitCode::done);
  };
  if (topic.empty()) return print(page_of(app));
  if (topic == "configuration") return print(configuration_page(app));
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
    if (command->get_name() == topic) return print(page_of(*command));
  }
  if (topic == "compatibility" && options.format == "text") {
    fmt::print("{}", compatibility_page(style));
    return static_cast<int>(ExitCode::done);
  }
  const ConfigKey* key = key_of_topic(topic);
  std::vector<Term> terms = topic == "glossary" ? glossary() : find_terms(topic);
  if (key != nullptr && terms.size() > 1) terms.clear();  // not the topic, but terms with the word in them
  if (key == nullptr && terms.empty()) {
    throw InputError(
        fmt::format("help: found \"{}\", expected a command, configuration, one of its keys, compatibility, "
                    "glossary, or a glossary term{}",
                    printable(topic), did_you_mean_topic(app, topic)));
  }
  if (options.format == "man")
    throw InputError(
        fmt::format("help: --format: found man for {}, expected a command, as keys and terms have no man "
                    "page; leave out --format",
                    printable(topic)));
  if (key != nullptr) fmt::print("{}", key_text(*key, style));
  if (!terms.empty()) fmt::print("{}{}", key == nullptr ? "" : "\n", to_text(terms, style));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void use_manual(CLI::App& app) {
  app.formatter(std::make_shared<ManualFormatter>());
}

void add_help_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("help", "Print the manual of the program, a command, a key or a term");
  const auto options = std::make_shared<HelpOptions>();
  command
      ->add_option("topic", options->topic,
                   "Command, configuration, a key, compatibility, glossary, or a glossary term")
      ->type_name("TOPIC");
  command->add_option("--format", options->format, "Output format: terminal text or man(1) page")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "man"}));
  command->callback(
      [&app, &action, options] { action = [&app, options] { return print_help(app, *options); }; });
}

}  // namespace plumbline
