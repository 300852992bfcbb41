#include "core/config/checkpoint_config.hpp"

#include "core/base/json_keys.hpp"
#include "core/config/model_classes.hpp"

namespace plumbline {

std::string to_checkpoint_config(const ModelConfig& config) {
  Json json = Json::parse(to_config_json(config));
  json.erase("_name_or_path");  // a path of the machine that wrote it
  for (const ModelClass& known : kModelClasses) {
    if (known.architecture == config.architecture) json["architectures"] = Json::array({known.name});
  }
  json["torch_dtype"] = "float32";
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline
