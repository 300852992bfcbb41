#include "core/config_text/load_config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/base/error.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {

RunConfig load_run_config(const std::string& path, const Overrides& overrides) {
  const ConfigFile file(path);
  for (const char* name : {"matrix", "include", "exclude", "published", "hypotheses"}) {
    if (file.root()[name]) {
      throw InputError(
          fmt::format("{}: {}: this is a matrix file; expected one configuration (use `plumbline "
                      "matrix` for a matrix)",
                      file.origin(file.root()[name]), name));
    }
  }
  Settings settings = file.settings(file.root());
  merge(settings, settings_of(overrides));
  if (!settings.contains("model")) {
    throw InputError(
        fmt::format("{}: model: missing; expected {}", path, find_config_key("model")->expected));
  }
  std::string contradiction;
  RunConfig config = config_from(settings, contradiction);
  if (!contradiction.empty()) throw InputError(fmt::format("{}: {}", path, contradiction));
  return config;
}

}  // namespace plumbline
