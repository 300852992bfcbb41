#include "bench/commands/config_options.hpp"

#include <fmt/format.h>

#include "bench/help/config_notes.hpp"
#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

std::string description_of(const ConfigKey& key) {
  const Described* note = find_config_note(key.name);
  return note == nullptr ? key.expected : fmt::format("{} ({})", note->meaning, key.expected);
}

std::string group_of(const ConfigKey& key) {
  const Described* note = find_config_note(key.name);
  return note == nullptr ? "Other configuration keys" : note->section;
}

}  // namespace

Overrides ConfigOptions::overrides() const {
  Overrides all;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(
          fmt::format("--set {}: expected key=value, for example --set micro_batch_size=2", setting));
    }
    all.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

void add_config_options(CLI::App& command, ConfigOptions& options, const std::string& what) {
  command.add_option("config", options.file, what == "MATRIX.yaml" ? "Matrix file" : "Configuration file")
      ->required()
      ->type_name(what);
  command.add_option("--set", options.settings, "Set a configuration key; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  for (const ConfigKey& key : config_keys()) {
    const std::string flags = fmt::format("--{}{}", key.flag(), key.alias.empty() ? "" : ",--" + key.alias);
    command
        .add_option_function<std::string>(
            flags,
            [&options, name = key.name](const std::string& value) {
              options.flags.emplace_back(name, value);
            },
            description_of(key))
        ->type_name("VALUE")
        ->group(group_of(key));
  }
}

}  // namespace plumbline
