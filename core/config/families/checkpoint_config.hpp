// What a checkpoint says of its model.
#pragma once

#include <string>

#include "core/config/model_config.hpp"

namespace plumbline {

/// The config.json of a checkpoint with fp32 weights, as transformers' from_pretrained reads it: to_config_json
/// with the class of the model and the type of its weights, without a name.
std::string to_checkpoint_config(const ModelConfig& config);

}  // namespace plumbline
