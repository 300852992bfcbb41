// `plumbline explain-config`: where each key of a configuration came from.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/config_file.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kWidestValue = 32;
constexpr std::size_t kMaxLaunchFile = std::size_t{1} << 20;

struct ExplainOptions {
  std::string source;
  std::string arguments;
  bool json = false;
};

LaunchFile settings_of_file(const std::string& source) {
  LaunchFile file;
  file.framework = "plumbline";
  const ConfigFile config(source);
  for (const auto& [key, value] : config.settings(config.root(), {"matrix", "include", "exclude", "fit"}))
    file.settings.push_back({key, value.text, value.origin});
  return file;
}

LaunchFile read_source(const ExplainOptions& options) {
  if (options.source.empty() == options.arguments.empty()) {
    throw InputError(
        "explain-config: expected a FILE or --megatron-args, for example plumbline explain-config train.sh");
  }
  std::error_code ignored;
  const bool arguments = options.source.empty();
  if (arguments || std::filesystem::is_regular_file(options.source, ignored)) {
    const std::string text = arguments ? options.arguments : read_text_file(options.source, kMaxLaunchFile);
    const std::string name = arguments ? "--megatron-args" : printable(options.source, 400);
    if (auto launch = read_launch_file(text, name, files_near(options.source))) return *launch;
    if (arguments) throw InputError("--megatron-args: found no argument, expected such as --num-layers 32");
  }
  return settings_of_file(options.source);
}

/// A model in words: its config.json is long.
std::string shown_value(const LaunchSetting& setting) {
  if (setting.key != "model" || !setting.value.starts_with('{')) return printable(setting.value, 60);
  const ModelConfig model = parse_model_config(setting.value, setting.origin);
  return fmt::format("{}, {} layers, hidden {}", model.architecture, model.layers, model.hidden);
}

void print_settings(const LaunchFile& file, bool defaults) {
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
  const LaunchFile file = read_source(options);
  if (options.json) {
    fmt::print("{}\n", output_json(explained_json(file), 2));
  } else {
    fmt::print("{} keys of a configuration, from {}\n", file.settings.size(), file.framework);
    print_settings(file, false);
    const auto is_default = [](const LaunchSetting& each) { return each.is_default; };
    if (std::any_of(file.settings.begin(), file.settings.end(), is_default)) {
      fmt::print("\ndefaults of {}, not in the file\n", file.framework);
      print_settings(file, true);
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
      ->add_option("file", options->source,
                   "Launch script of Megatron-LM, a log of its arguments, or a configuration")
      ->type_name("FILE");
  command
      ->add_option("--megatron-args", options->arguments,
                   "Arguments of Megatron-LM in place of a file, in one pair of quotes")
      ->type_name("ARGUMENTS");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &action] { action = [=] { return explain_config(*options); }; });
}

}  // namespace plumbline
