// `plumbline explain-config`: where each key of a configuration came from.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kWidestValue = 32;

struct ExplainOptions {
  std::string source;
  std::string arguments;
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
Explained settings_of_file(const std::string& source) {
  Explained found;
  found.file.framework = "plumbline";
  const ConfigFile config(source);
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

Explained read_source(const ExplainOptions& options) {
  if (options.source.empty() == options.arguments.empty()) {
    throw InputError(
        "explain-config: expected a FILE or --megatron-args, for example plumbline explain-config train.sh");
  }
  std::error_code ignored;
  const bool arguments = options.source.empty();
  if (arguments || std::filesystem::is_regular_file(options.source, ignored)) {
    const std::string name = arguments ? "--megatron-args" : printable(options.source, 400);
    if (auto log = arguments ? std::nullopt : read_long_log(options.source, name)) return of_launch(*log);
    const std::string text = arguments ? options.arguments : read_text_file(options.source, kMostLaunchBytes);
    if (auto launch = read_launch_file(text, name, files_near(options.source))) return of_launch(*launch);
    if (arguments) throw InputError("--megatron-args: found no argument, expected such as --num-layers 32");
  }
  return settings_of_file(options.source);
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
          {"refused", remarks_json(file.refused)},
          {"notes", file.notes}};
}

int explain_config(const ExplainOptions& options) {
  const Explained found = read_source(options);
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
  command
      ->add_option(
          "file", options->source,
          "Launch script of Megatron-LM, a log of its arguments, a configuration, or a Hugging Face folder")
      ->type_name("FILE");
  command
      ->add_option("--megatron-args", options->arguments,
                   "Arguments of Megatron-LM in place of a file, in one pair of quotes")
      ->type_name("ARGUMENTS");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &action] { action = [=] { return explain_config(*options); }; });
}

}  // namespace plumbline
