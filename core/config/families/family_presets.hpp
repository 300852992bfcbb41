// Presets that are written as their config.json.
#pragma once

#include <vector>

#include "core/config/model_config.hpp"

namespace plumbline {

/// Presets of every family except those in presets.cpp.
std::vector<ModelConfig> family_presets();

}  // namespace plumbline
