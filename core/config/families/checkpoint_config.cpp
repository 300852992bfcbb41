#include "core/config/families/checkpoint_config.hpp"

#include "core/base/json_keys.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {
namespace {

/// The keys of to_config_json without the name, a path of the machine that wrote it.
Json keys_of(const ModelConfig& config) {
  Json json = Json::parse(to_config_json(config));
  json.erase("_name_or_path");
  return json;
}

template <class Value>
std::string written(const Value& json) {
  return json.dump(2, ' ', true, Value::error_handler_t::replace) + '\n';
}

}  // namespace

bool same_model(const ModelConfig& a, const ModelConfig& b) {
  return keys_of(a) == keys_of(b);
}

std::string to_checkpoint_config(const ModelConfig& config) {
  Json json = keys_of(config);
  if (const Family* family = find_family(config.architecture)) {
    json["architectures"] = Json::array({family->class_name});
  }
  // A class assumes those of a vocabulary that is not this one.
  for (const char* id : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[id] = nullptr;
  json["torch_dtype"] = "float32";
  return written(json);
}

std::string to_checkpoint_config(const ModelConfig& config, std::string_view source,
                                 const std::string& origin) {
  OrderedJson file = parse_json_object<OrderedJson>(source, origin);
  const Json before = keys_of(parse_model_config(source, origin));
  const Json now = keys_of(config);
  if (const OrderedJson* text = nested_model(file)) {
    file = OrderedJson(*text);
    file["tie_word_embeddings"] = config.embedding.tied;
  }
  for (const auto& [key, value] : before.items()) {
    if (!now.contains(key)) file.erase(key);
  }
  for (const auto& [key, value] : now.items()) {
    if (!before.contains(key) || before[key] != value) file[key] = value;
  }
  if (const Family* family = find_family(config.architecture)) {
    // A file of another type names code of its own, which does not come along.
    if (file.value("model_type", "") != family->type()) file.erase("auto_map");
    file["model_type"] = family->type();
    file["architectures"] = OrderedJson::array({family->class_name});
  }
  if (config.prediction_modules > 0) file["num_nextn_predict_layers"] = config.prediction_modules;
  for (const char* key : {"_name_or_path", "quantization_config"}) file.erase(key);
  file[file.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
  return written(file);
}

}  // namespace plumbline
