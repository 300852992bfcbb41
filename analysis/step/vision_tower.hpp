// Vision tower of a first stage (VisionShape): its layers as stages of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The tower of a configuration with images; none without.
VisionShape vision_of(const RunConfig& config);

/// Layers of the tower, each like a stage with one layer: those whose patches see windows, and those whose
/// patches see a whole image.
struct TowerLayers {
  std::int64_t count = 0;
  StageShape layer;
};
std::vector<TowerLayers> tower_layers(const StageShape& shape);
/// The stage of a merger's products, whose stream is the tokens that it makes.
StageShape tower_merger(const StageShape& shape);

}  // namespace plumbline
