#include "bench/commands/config_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/commands/help/config_notes.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/packed_data.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

/// Meaning, allowed values and default of a key.
std::string description_of(const ConfigKey& key) {
  static const RunConfig kDefaults;
  const Described* note = find_config_note(key.name);
  const std::string otherwise = key.print(kDefaults);
  // An empty text: the meaning states the default.
  const std::string values =
      otherwise.empty() ? key.expected : fmt::format("{}; default {}", key.expected, otherwise);
  return note == nullptr ? values : fmt::format("{} ({})", note->meaning, values);
}

std::string group_of(const ConfigKey& key) {
  const Described* note = find_config_note(key.name);
  return note == nullptr ? "Other configuration keys" : note->section;
}

/// An empty value is one of a shell's variable that is not set.
void refuse_empty(const Override& given) {
  const ConfigKey* key = find_config_key(given.key);
  if (key == nullptr || !given.value.empty()) return;
  throw InputError(fmt::format("{}: found an empty value, expected {}; give one or remove the option",
                               given.origin == "--set" ? key->name : given.origin, key->expected));
}

/// "sbatch job.sh" in place of arguments.
bool starts_a_script(const std::string& text) {
  return text.starts_with("sbatch ") || text.starts_with("bash ") || text.starts_with("sh ");
}

/// Of one option the last counts; --set and an option of the key must not contradict each other.
void refuse_contradiction(const Override& setting, const Override& flag) {
  const ConfigKey* key = find_config_key(setting.key);
  if (key == nullptr || key != find_config_key(flag.key) || setting.value == flag.value) return;
  throw InputError(fmt::format("{}: found {} by --set and {} by {}, expected one value; remove one of them",
                               key->name, printable(setting.value), printable(flag.value), flag.origin));
}

}  // namespace

Overrides ConfigOptions::overrides() const {
  Overrides all;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(fmt::format("--set: found {}, expected key=value, for example micro_batch_size=2",
                                   printable(setting)));
    }
    all.push_back({setting.substr(0, equals), setting.substr(equals + 1)});
  }
  for (const Override& setting : all) {
    for (const Override& flag : flags) refuse_contradiction(setting, flag);
  }
  all.insert(all.end(), flags.begin(), flags.end());
  for (const Override& given : all) refuse_empty(given);
  if (!arguments.empty() && source.empty())
    throw InputError("--script-args: found without a script, expected CONFIG; remove the option");
  if (!ignored.empty() && source.empty())
    throw InputError(fmt::format("--ignore: found {} without a file, expected CONFIG; remove the option",
                                 printable(ignored.front())));
  for (const std::string& key : ignored) all.push_back({key, "", "--ignore", true});
  if (!arguments.empty()) all.push_back({"", arguments, "--script-args", false, true});
  if (run_script) all.push_back({"", "", "--run-script", false, false, true});
  return all;
}

RunConfig ConfigOptions::load() const {
  RunConfig config = load_run_config(source, overrides());
  name_hardware(config.machine.hardware);
  add_packed_work(config);
  return config;
}

RunConfig ConfigOptions::load_with_notes() const {
  std::string note;
  RunConfig config = load_run_config(source, overrides(), &note);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  name_hardware(config.machine.hardware);
  add_packed_work(config);
  return config;
}

bool ConfigOptions::gives(std::string_view key) const {
  const Overrides all = overrides();
  return std::any_of(all.begin(), all.end(), [key](const Override& each) {
    const ConfigKey* known = find_config_key(each.key);
    return !each.ignores && known != nullptr && known->name == key;
  });
}

void add_config_options(CLI::App& command, ConfigOptions& options, const std::string& what) {
  constexpr const char* kSources =
      "a YAML file, a model preset, a Hugging Face folder or its config.json, or a launch script of "
      "Megatron-LM; optional if options give everything";
  command
      .add_option("config", options.source,
                  fmt::format("{}: {}", what == "CONFIG" ? "Configuration" : "Matrix, or one configuration",
                              kSources))
      ->type_name(what);
  command
      .add_option_function<std::string>(
          "--megatron-args",
          [&options](const std::string& arguments) {
            if (!options.source.empty()) {
              throw InputError(fmt::format(
                  "--megatron-args: found with the configuration {}, expected one of them; remove either",
                  printable(options.source, 400)));
            }
            const bool starts = starts_a_script(arguments);
            options.source =
                starts ? arguments : arguments.substr(std::min(arguments.find("--"), arguments.size()));
            if (options.source.empty())
              throw InputError(
                  "--megatron-args: found no argument, expected such as \"--num-layers 32 ...\"");
          },
          "Arguments of Megatron-LM, or sbatch with a script, in place of a configuration, in one pair of "
          "quotes")
      ->type_name("ARGUMENTS");
  command.add_option("--set", options.settings, "Set a configuration key; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  if (what == "CONFIG") {
    command
        .add_option("--ignore", options.ignored,
                    "Leave an argument of a launch file, or a key of CONFIG, out; may be repeated")
        ->type_name("KEY")
        ->allow_extra_args(false);
    command
        .add_option("--script-args", options.arguments,
                    "Arguments of a launch script ($1, $2 and on), in one pair of quotes")
        ->type_name("ARGUMENTS");
    command.add_flag("--run-script", options.run_script,
                     "Run a launch script in a sandbox, where programs only write their command down");
  }
  for (const ConfigKey& key : config_keys()) {
    const std::string flags = fmt::format("--{}{}", key.flag(), key.alias.empty() ? "" : ",--" + key.alias);
    command
        .add_option_function<std::string>(
            flags,
            [&options, name = key.name,
             flag = "--" + (key.alias.empty() ? key.flag() : key.alias)](const std::string& value) {
              options.flags.push_back({name, value, flag});
            },
            description_of(key))
        ->type_name("VALUE")
        ->group(group_of(key));
  }
}

}  // namespace plumbline
