#include "core/config_text/load_config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/base/error.hpp"
#include "core/config_text/config_file.hpp"

namespace plumbline {

RunConfig load_run_config(const std::string& source, const Overrides& overrides) {
  const ConfigFile file(source);
  for (const char* name : {"matrix", "include", "exclude", "fit", "published", "hypotheses"}) {
    if (file.root()[name]) {
      throw InputError(
          fmt::format("{}: {}: this is a matrix file; expected one configuration (use `plumbline "
                      "matrix` for a matrix)",
                      file.origin(file.root()[name]), name));
    }
  }
  Settings settings = file.settings(file.root());
  put_over(settings, settings_of(overrides));
  std::string contradiction;
  RunConfig config = config_from(settings, file.name(), contradiction);
  if (!contradiction.empty()) throw InputError(fmt::format("{}: {}", file.name(), contradiction));
  return config;
}

}  // namespace plumbline
