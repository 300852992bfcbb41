// config.json of a checkpoint, for its model.
#pragma once

#include <string>
#include <string_view>

#include "core/config/model_config.hpp"

namespace plumbline {

/// The config.json of a checkpoint with fp32 weights, as transformers' from_pretrained reads it:
/// to_config_json with the class of the model and the type of its weights, without a name and without ids of
/// tokens.
std::string to_checkpoint_config(const ModelConfig& config);

/// The same from the config.json of the original model: its keys in their order, except those that contradict
/// `config`, the type of the weights, and the quantization. `origin` names the file in messages. Throws
/// InputError for a file that parse_model_config refuses.
std::string to_checkpoint_config(const ModelConfig& config, std::string_view source,
                                 const std::string& origin);

/// True when both are the same model, under any name.
bool same_model(const ModelConfig& a, const ModelConfig& b);

}  // namespace plumbline
