// Memory of a vision tower in another training framework.
#include <algorithm>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/step/vision_tower.hpp"

namespace plumbline {

TowerBytes framework_tower_bytes(const StageShape& s) {
  TowerBytes bytes;
  const VisionShape& vision = s.vision;
  if (!vision.on()) return bytes;
  const std::int64_t stream = 2 * vision.all_patches() * vision.tower.hidden;
  for (const TowerLayers& alike : tower_layers(s)) {
    StageShape whole = alike.layer;
    whole.recomputation.granularity = Recompute::none;
    bytes.passing = std::max(bytes.passing, framework_layer_bytes(whole));
    if (vision.trains_layers) bytes.kept += alike.count * framework_layer_bytes(alike.layer);
  }
  if (vision.trains_layers) bytes.kept += 2 * vision.all_patches() * vision.tower.patch;
  // A merger's input before and behind its norm; its wide product's result before and behind the activation.
  if (vision.has_backward())
    bytes.kept += (1 + vision.tower.deepstack) * (2 * stream + 2 * stream / vision.tensor);
  return bytes;
}

}  // namespace plumbline
