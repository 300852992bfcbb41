// What a checkpoint says of its model.
#pragma once

#include <string>
#include <string_view>

#include "core/config/model_config.hpp"

namespace plumbline {

/// The config.json of a checkpoint with fp32 weights, as transformers' from_pretrained reads it: to_config_json
/// with the class of the model and the type of its weights, without a name and without ids of tokens.
std::string to_checkpoint_config(const ModelConfig& config);

/// The same from the config.json that the model comes from: its keys in their order, but those that say something else than
/// `config`, the type of the weights, and how they were quantized. `origin` stands for the file in messages. Throws InputError
/// for a file that parse_model_config refuses.
std::string to_checkpoint_config(const ModelConfig& config, std::string_view source,
                                 const std::string& origin);

/// True when both are the same model, whatever they are called.
bool same_model(const ModelConfig& a, const ModelConfig& b);

}  // namespace plumbline
