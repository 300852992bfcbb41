// Vision towers of the Qwen2-VL, Qwen2.5-VL and Qwen3-VL kinds. Sources: the vision configurations and models
// of transformers 5.24; of the split over tensor ranks NVIDIA-NeMo/Megatron-Bridge@067f987
// src/megatron/bridge/models/qwen_vl (modelling_qwen3_vl/model.py; modeling_qwen25_vl.py, whose tower is
// transformers').
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/config/families/families.hpp"

namespace plumbline {
namespace {

/// A kind by how its model_type begins, with the values of transformers for keys that are missing.
struct TowerKind {
  std::string_view begin;
  const char* width;
  std::int64_t layers, hidden, ffn, pixels;
  bool gated, layer_norm, patch_bias, split;
  std::int64_t positions = 0;
  std::int64_t window = 0;  // pixels along an edge
  const char* special;      // list of layers without a window, or with a deepstack merger
  std::int64_t special_layers;
};
constexpr TowerKind kKinds[] = {
    {"qwen3_vl", "hidden_size", 27, 1152, 4304, 16, false, true, true, true, 2304, 0,
     "deepstack_visual_indexes", 3},
    {"qwen2_5_vl", "hidden_size", 32, 1280, 3420, 14, true, false, false, false, 0, 112,
     "fullatt_block_indexes", 4},
    {"qwen2_vl", "embed_dim", 32, 1280, 5120, 14, false, true, false, false, 0, 0, "", 0},
};

constexpr std::int64_t kMostTowerLayers = 1000;
constexpr std::int64_t kWidestTower = 1 << 16;
constexpr std::int64_t kMostPixels = 1 << 10;

}  // namespace

VisionTower read_vision_tower(const Json& file, const std::string& origin, std::int64_t hidden) {
  const auto given = file.find("vision_config");
  if (given == file.end() || !given->is_object()) return {};
  const JsonKeys keys(*given, origin, JsonNull::missing, "vision_config");
  const auto outer = file.find("model_type");
  std::string type = outer != file.end() && outer->is_string() ? outer->get<std::string>() : "";
  if (const Json* own = keys.find("model_type"); own != nullptr && own->is_string()) type = *own;
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const TowerKind& each) { return type.starts_with(each.begin); });
  if (kind == std::end(kKinds)) return {};
  VisionTower tower;
  tower.layers = keys.integer_or("depth", kMostTowerLayers, kind->layers);
  tower.hidden = keys.integer_or(kind->width, kWidestTower, kind->hidden);
  tower.heads = keys.integer_or("num_heads", kWidestTower, 16);
  if (tower.hidden % tower.heads != 0)
    keys.fail("num_heads",
              fmt::format("found {}, expected a divisor of {} {}", tower.heads, kind->width, tower.hidden));
  const bool by_ratio = type.starts_with("qwen2_vl");
  tower.ffn = by_ratio ? tower.hidden * keys.integer_or("mlp_ratio", 64, 4)
                       : keys.integer_or("intermediate_size", kWidestTower, kind->ffn);
  tower.gated = kind->gated;
  tower.layer_norm = kind->layer_norm;
  tower.patch_bias = kind->patch_bias;
  tower.split = kind->split;
  const std::int64_t pixels = keys.integer_or("patch_size", kMostPixels, kind->pixels);
  const char* const channels = keys.find("in_chans") != nullptr ? "in_chans" : "in_channels";
  tower.patch = keys.integer_or(channels, kMostPixels, 3) *
                keys.integer_or("temporal_patch_size", kMostPixels, 2) * pixels * pixels;
  if (kind->positions > 0)
    tower.positions = keys.integer_or("num_position_embeddings", kWidestTower, kind->positions);
  tower.merge = keys.integer_or("spatial_merge_size", 64, 2);
  const char* const out = by_ratio ? "hidden_size" : "out_hidden_size";
  tower.out = keys.integer_or(out, kWidestTower, hidden);
  if (kind->window > 0) {
    const std::int64_t edge =
        keys.integer_or("window_size", kMostPixels * kMostPixels, kind->window) / pixels;
    tower.window = edge * edge;
  }
  std::int64_t special = kind->special_layers;
  if (keys.find(kind->special) != nullptr)
    special = std::ssize(keys.numbers(kind->special, 0, static_cast<double>(tower.layers) - 1));
  special = std::min(special, tower.layers);
  (tower.window > 0 ? tower.full_layers : tower.deepstack) = special;
  if (by_ratio) tower.deepstack = 0;
  Json kept = Json::object();
  for (const auto& [key, value] : given->items())
    if (keys.asked_for(key)) kept[key] = value;
  kept["model_type"] = std::string(kind->begin);
  kept[out] = tower.out;
  tower.keys = kept.dump(-1, ' ', true, Json::error_handler_t::replace);
  return tower;
}

}  // namespace plumbline
