// `plumbline completion` prints a shell's script; the script asks `plumbline complete`, which is hidden.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/published.hpp"
#include "analysis/reliability/fleet.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/help/completion.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/config_keys.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
namespace {

using Files = Completions::Files;

Completions files(std::vector<std::string> extensions) {
  return {{}, Files::any, std::move(extensions)};
}

template <class Names>
Completions names(const Names& list, std::vector<std::string> extensions) {
  Completions completions;
  if (!extensions.empty()) completions = files(std::move(extensions));
  for (const auto& name : list) completions.candidates.push_back({std::string(name), ""});
  return completions;
}

/// "one of a, b, c" and "true or false": config_keys.hpp tells the values of a choice in these words.
Completions choices(std::string_view expected) {
  constexpr std::string_view kOneOf = "one of ";
  Completions completions;
  if (expected == "true or false") return names(std::vector<std::string>{"true", "false"}, {});
  if (!expected.starts_with(kOneOf)) return completions;
  expected.remove_prefix(kOneOf.size());
  while (!expected.empty()) {
    const std::size_t end = std::min(expected.find(", "), expected.size());
    std::string_view value = expected.substr(0, end);  // or "or fp8: its meaning"
    if (value.starts_with("or ")) value.remove_prefix(3);
    completions.candidates.push_back({std::string(value.substr(0, value.find(':'))), ""});
    expected.remove_prefix(std::min(end + 2, expected.size()));
  }
  return completions;
}

Completions software_names() {
  Completions all = names(inference_engine_names(), {});
  for (const auto& [name, software] : built_in_profiles().software) all.candidates.push_back({name, ""});
  return all;
}

Completions values_of_key(const ConfigKey& key) {
  if (key.name == "model" || key.name == "teacher") return names(preset_names(), {"json"});
  if (key.name == "hardware") return names(hardware_preset_names(), {"json"});
  if (key.name == "software") return software_names();
  if (key.name == "pipeline_schedule") return names(schedule_names(), {"csv"});
  if (key.expected.find("folder") != std::string::npos) return {{}, Files::folders, {}};
  if (key.expected.find("file") != std::string::npos) return files({});
  return choices(key.expected);
}

bool is(const CLI::Option& option, const char* name) {
  return option.check_name(name);
}

Completions values_of(const CLI::App& app, const CLI::App& command, const CLI::Option& option) {
  const std::string& name = command.get_name();
  if (!option.get_positional()) {
    if (const ConfigKey* key =
            find_config_key(option.get_lnames().empty() ? "" : option.get_lnames().front()))
      return values_of_key(*key);
  }
  if (name == "help") {
    Completions topics = names(std::vector<std::string>{"configuration", "compatibility", "glossary"}, {});
    for (const ConfigKey& key : config_keys()) topics.candidates.push_back({key.name, "configuration key"});
    for (const CLI::App* each :
         app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
      topics.candidates.push_back({each->get_name(), each->get_description()});
    return topics;
  }
  const bool schedule =
      (name == "schedule" && option.get_positional()) || is(option, "--schedule") || is(option, "--compare");
  if (schedule)
    return names(schedule_names(), option.get_positional() ? std::vector<std::string>{"csv", "json"}
                                                           : std::vector<std::string>{});
  if (is(option, "--table")) {
    Completions tables;
    for (const PublishedTable& table : built_in_tables()) tables.candidates.push_back({table.name, ""});
    return tables;
  }
  const std::string type = option.get_type_name();
  if (type == "CONFIG") return names(preset_names(), {"yaml", "yml", "json"});
  if (type == "FLEET.yaml") return names(fleet_names(), {"yaml", "yml", "json"});
  if (type == "TOPOLOGY.conf") return files({"conf", "yaml", "yml"});
  if (type == "MATRIX.yaml") return files({"yaml", "yml"});
  if (type == "COSTS.json") return files({"json"});
  if (type == "DIR" || type == "NEW") return {{}, Files::folders, {}};
  if (type.starts_with("FILE") || type.ends_with(".json")) return files({});
  return {};
}

}  // namespace

void add_completion_commands(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell completion script");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "Name of the shell")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}));
  command->callback([&action, shell] {
    action = [shell] {
      fmt::print("{}", completion_script(*shell));
      return 0;
    };
  });
  CLI::App* asked = app.add_subcommand("complete", "What the scripts ask")->group("");
  const auto words = std::make_shared<std::vector<std::string>>();
  asked->add_option("words", *words);
  asked->callback([&app, &action, words] {
    action = [&app, words] {
      const auto values = [&app](const CLI::App& each, const CLI::Option& option) {
        return values_of(app, each, option);
      };
      fmt::print("{}", to_lines(complete(app, *words, values)));
      return 0;
    };
  });
}

}  // namespace plumbline
