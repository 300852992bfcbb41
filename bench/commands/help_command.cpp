// `plumbline help`: the manual, and how every command's --help is written.
#include "bench/commands/help_command.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/help/glossary.hpp"
#include "bench/help/man_page.hpp"
#include "bench/help/text_page.hpp"
#include "bench/machine/version.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// CLI11 asks this for what --help prints.
class ManualFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    return text_page(page_of(*app), text_style_of_standard_output());
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
  page.summary = "the keys of a configuration file; each is an option of every command that takes one";
  page.synopsis = "key: value in CONFIG.yaml, --set key=value, or --key value";
  page.prose = find_command_page("configuration");
  return page;
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
  const std::vector<Term> terms = topic == "glossary" ? glossary() : find_terms(topic);
  if (terms.empty()) {
    throw InputError(fmt::format(
        "help: nothing about \"{}\", expected a command, configuration, glossary, or a term of the glossary",
        topic));
  }
  if (options.format == "man")
    throw InputError(fmt::format("help {}: terms have no manual page; leave out --format", topic));
  fmt::print("{}", to_text(terms, style));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void use_manual(CLI::App& app) {
  app.formatter(std::make_shared<ManualFormatter>());
}

void add_help_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("help", "Print the manual of the program, a command or a term");
  const auto options = std::make_shared<HelpOptions>();
  command
      ->add_option("topic", options->topic, "A command, configuration, glossary, or a term of the glossary")
      ->type_name("TOPIC");
  command->add_option("--format", options->format, "Text for the terminal, or a page for man(1)")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "man"}));
  command->callback(
      [&app, &action, options] { action = [&app, options] { return print_help(app, *options); }; });
}

}  // namespace plumbline
