// `plumbline explain-config`: where each key of a configuration came from.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/launch_files/submitted_script.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kWidestValue = 32;

struct ExplainOptions {
  ConfigOptions config;
  bool json = false;
};

struct Explained {
  LaunchFile file;
  std::string model;  // in words
};

std::string in_words(const ModelConfig& model) {
  return fmt::format("{}, {} layers, hidden {}", model.architecture, model.layers, model.hidden);
}

/// Values are read as by `predict`, which refuses bad ones.
Explained settings_of_file(const std::string& source, const BesideFile& beside) {
  Explained found;
  found.file.framework = "plumbline";
  const ConfigFile config(source, beside);
  found.file.notes = config.notes();
  ConfigDraft draft;
  std::error_code ignored;
  for (const auto& [key, value] : config.settings(config.root(), {"matrix", "include", "exclude", "fit"})) {
    find_config_key(key)->parse(draft, value);
    const bool folder = key == "model" && std::filesystem::is_directory(source, ignored);
    const std::string file = (std::filesystem::path(source) / "config.json").string();
    found.file.settings.push_back({key, value.text, folder ? file : value.origin});
    if (key != "model") continue;
    const std::string words = in_words(draft.config.model);
    found.model =
        value.text.starts_with('{') ? words : fmt::format("{} ({})", printable(value.text, 60), words);
  }
  return found;
}

Explained of_launch(LaunchFile file) {
  std::string model;
  for (const LaunchSetting& each : file.settings)
    if (each.key == "model" && each.value.starts_with('{'))
      model = in_words(parse_model_config(each.value, each.origin));
  return {std::move(file), std::move(model)};
}

Explained settings_in(const std::string& source, const BesideFile& beside) {
  if (source.starts_with("--"))
    return of_launch(read_launch_file(source, "--megatron-args", {}, beside).value());
  std::error_code ignored;
  if (is_start_of_script(source) && !std::filesystem::exists(source, ignored))
    return of_launch(read_launch_file(source, "--megatron-args", files_near(source), beside).value());
  if (std::filesystem::is_regular_file(source, ignored)) {
    const std::string name = printable(source, 400);
    if (auto log = read_long_log(source, name, beside)) return of_launch(*log);
    const std::string text = read_text_file(source, kMostLaunchBytes);
    if (auto launch = read_launch_file(text, name, files_near(source), beside)) return of_launch(*launch);
  }
  return settings_of_file(source, beside);
}

/// The keys of a file with those of options over them.
Explained read_source(const ConfigOptions& options) {
  const Overrides overrides = options.overrides();
  if (options.source.empty() && overrides.empty()) {
    throw InputError(
        "explain-config: expected CONFIG, --megatron-args or options, for example plumbline explain-config "
        "train.sh");
  }
  const CommandLine given = command_line(options.source, overrides);
  Explained found = settings_in(options.source, given.beside);
  const bool world = given.settings.contains("world_size");
  const bool replicas = given.settings.contains("data_parallel_size");
  std::erase_if(found.file.settings, [&](const LaunchSetting& each) {
    return given.settings.contains(each.key) || (world && !replicas && each.key == "data_parallel_size") ||
           (replicas && !world && each.key == "world_size");
  });
  ConfigDraft draft;
  for (const auto& [key, value] : given.settings) {
    find_config_key(key)->parse(draft, value);
    found.file.settings.push_back({key, value.text, value.origin});
    if (key == "model") found.model = fmt::format("{} ({})", value.text, in_words(draft.config.model));
  }
  if (world || replicas) std::erase(found.file.notes, kNoGpusNote);
  return found;
}

void print_settings(const Explained& found, bool defaults) {
  const LaunchFile& file = found.file;
  // A model in words: its config.json is long.
  const auto shown_value = [&](const LaunchSetting& setting) {
    return setting.key == "model" && !found.model.empty() ? found.model : printable(setting.value, 60);
  };
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const LaunchSetting& setting : file.settings) {
    key_width = std::max(key_width, setting.key.size());
    value_width = std::max(value_width, std::min(kWidestValue, shown_value(setting).size()));
  }
  for (const LaunchSetting& setting : file.settings) {
    if (setting.is_default != defaults) continue;
    fmt::print("  {:<{}}  ", setting.key, key_width);
    if (defaults) {
      fmt::print("{}\n", shown_value(setting));
    } else {
      fmt::print("{:<{}}  {}\n", shown_value(setting), value_width, printable(setting.origin, 200));
    }
  }
}

void print_remarks(const std::string& title, const std::vector<LaunchRemark>& remarks) {
  if (remarks.empty()) return;
  fmt::print("\n{}\n", title);
  std::size_t width = 0;
  for (const LaunchRemark& remark : remarks) width = std::max(width, remark.name.size());
  for (const LaunchRemark& remark : remarks)
    fmt::print("  {:<{}}  {}: {}\n", remark.name, width, remark.place, remark.reason);
}

OrderedJson remarks_json(const std::vector<LaunchRemark>& remarks) {
  OrderedJson list = OrderedJson::array();
  for (const LaunchRemark& remark : remarks)
    list.push_back({{"name", remark.name}, {"place", remark.place}, {"reason", remark.reason}});
  return list;
}

OrderedJson explained_json(const LaunchFile& file) {
  OrderedJson settings = OrderedJson::array();
  for (const LaunchSetting& each : file.settings)
    settings.push_back(
        {{"key", each.key}, {"value", each.value}, {"origin", each.origin}, {"default", each.is_default}});
  return {{"framework", file.framework},
          {"settings", std::move(settings)},
          {"without_effect", remarks_json(file.without_effect)},
          {"approximated", remarks_json(file.approximated)},
          {"refused", remarks_json(file.refused)},
          {"notes", file.notes}};
}

int explain_config(const ExplainOptions& options) {
  const Explained found = read_source(options.config);
  const LaunchFile& file = found.file;
  if (options.json) {
    fmt::print("{}\n", output_json(explained_json(file), 2));
  } else {
    fmt::print("{} keys of a configuration, from {}\n", file.settings.size(), file.framework);
    print_settings(found, false);
    const auto is_default = [](const LaunchSetting& each) { return each.is_default; };
    if (std::any_of(file.settings.begin(), file.settings.end(), is_default)) {
      fmt::print("\ndefaults of {}, not in the file\n", file.framework);
      print_settings(found, true);
    }
    print_remarks("without effect on memory and time", file.without_effect);
    print_remarks("approximated", file.approximated);
    print_remarks("refused", file.refused);
    for (const std::string& note : file.notes) fmt::print("note: {}\n", printable(note, 400));
  }
  file.require_modelled();
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_explain_config_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("explain-config", "Show where each key of a configuration came from");
  const auto options = std::make_shared<ExplainOptions>();
  add_config_options(*command, options->config);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &action] { action = [=] { return explain_config(*options); }; });
}

}  // namespace plumbline
