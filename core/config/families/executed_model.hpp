// Models that the executed step has layers for.
#pragma once

#include "core/config/model_config.hpp"

namespace plumbline {

/// True if `run` takes the model, on one rank of backend cpu; others are predicted only. By the compatibility
/// table.
bool is_executed(const ModelConfig& model);

}  // namespace plumbline
