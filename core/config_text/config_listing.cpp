#include "core/config_text/config_listing.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/config_text/config_keys.hpp"

namespace plumbline {

std::vector<std::pair<std::string, std::string>> describe(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const ConfigKey& key : config_keys()) lines.emplace_back(key.name, key.print(config));
  return lines;
}

std::string to_yaml(const RunConfig& config) {
  // JSON is YAML: a JSON string is a double-quoted scalar, a JSON object a flow mapping.
  std::string text;
  for (const auto& [key, value] : describe(config)) {
    if (key == "model") {
      text += fmt::format("{}: {}\n", key, to_config_json(config.model));
    } else if (key == "teacher" && config.distillation.teacher) {
      text += fmt::format("{}: {}\n", key, to_config_json(*config.distillation.teacher));
    } else {
      const nlohmann::json quoted = value;
      text +=
          fmt::format("{}: {}\n", key, quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
  }
  return text;
}

}  // namespace plumbline
