// A model's shape as Megatron-LM's flags.
#pragma once

#include <string>
#include <vector>

#include "core/config/model_config.hpp"

namespace plumbline {

/// One flag with its value an entry. Throws InputError for layers that `of`, the flags, do not say.
std::vector<std::string> megatron_model_flags(const ModelConfig& model, const std::string& of);

}  // namespace plumbline
