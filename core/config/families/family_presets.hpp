// Presets that are written as their config.json.
#pragma once

#include <vector>

#include "core/config/model_config.hpp"

namespace plumbline {

/// Of every family but those whose presets presets.cpp has.
std::vector<ModelConfig> family_presets();

}  // namespace plumbline
