#include "core/config/families/checkpoint_config.hpp"

#include "core/base/json_keys.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {

std::string to_checkpoint_config(const ModelConfig& config) {
  Json json = Json::parse(to_config_json(config));
  json.erase("_name_or_path");  // a path of the machine that wrote it
  if (const Family* family = find_family(config.architecture)) {
    json["architectures"] = Json::array({family->class_name});
  }
  json["torch_dtype"] = "float32";
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline
