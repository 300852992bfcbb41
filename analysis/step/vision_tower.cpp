#include "analysis/step/vision_tower.hpp"

namespace plumbline {
namespace {

/// A layer over `count` sequences of `seq` patches: all see each other, no product is in FP8, no graph is
/// captured (Megatron-Bridge, get_vision_model_config in modelling_qwen3_vl/transformer_config.py).
StageShape layer_of(const StageShape& s, std::int64_t count, std::int64_t seq) {
  const VisionTower& tower = s.vision.tower;
  const std::int64_t t = s.vision.tensor;
  StageShape layer;
  layer.layers = 1;
  layer.stream = {count * seq, count * seq, count, seq, tower.hidden};
  AttentionWidths& attention = layer.attention;
  attention.head_dim = attention.rotated = tower.hidden / tower.heads;
  attention.heads = attention.kv_heads = tower.heads / t;
  attention.q = attention.k = attention.heads * attention.head_dim;
  attention.qkv_bias = true;
  attention.prefix = seq;
  attention.unfused = s.attention.unfused;
  BlockShape& block = layer.block;
  block.layer_norm = tower.layer_norm;
  block.norm_rows = block.norm_vectors = tower.layer_norm ? 2 : 1;
  block.linear_bias = true;
  layer.mlp = {tower.ffn / t, (tower.gated ? 2 : 1) * (tower.ffn / t), tower.gated};
  layer.predicted.projection_bias = layer.predicted.feed_forward_bias = true;
  layer.numerics = s.numerics;
  layer.numerics.framework_fp8 = layer.numerics.fp4 = layer.numerics.fp8_weights = false;
  layer.numerics.fp8_activation_input = false;
  layer.sharding = s.sharding;
  layer.sharding.tensor = s.vision.tensor;
  layer.sharding.sequence_parallel = false;
  layer.recomputation.granularity = s.recomputation.granularity;
  layer.traits = s.traits;
  layer.software = s.software;
  return layer;
}

}  // namespace

VisionShape vision_of(const RunConfig& config) {
  VisionShape vision;
  const BatchConfig& batch = config.batch;
  if (batch.images_per_sequence == 0) return vision;
  vision.tower = config.model.predicted.vision;
  vision.tower.keys.clear();
  vision.images = batch.micro_batch_size * batch.images_per_sequence;
  vision.patches = batch.image_tokens * vision.tower.square();
  vision.tensor = vision.tower.split ? config.parallel.tensor : 1;
  vision.trains_layers = !config.finetune.freeze_vision_model;
  vision.trains_mergers = !config.finetune.freeze_vision_projection;
  return vision;
}

std::vector<TowerLayers> tower_layers(const StageShape& s) {
  const VisionTower& tower = s.vision.tower;
  if (!s.vision.on()) return {};
  const StageShape whole = layer_of(s, s.vision.images, s.vision.patches);
  if (tower.window == 0 || tower.window >= s.vision.patches) return {{tower.layers, whole}};
  const std::int64_t windows = (s.vision.all_patches() + tower.window - 1) / tower.window;
  StageShape windowed = layer_of(s, windows, tower.window);
  windowed.stream.tokens = windowed.stream.rows = s.vision.all_patches();
  return {{tower.layers - tower.full_layers, windowed}, {tower.full_layers, whole}};
}

StageShape tower_merger(const StageShape& s) {
  StageShape merger = layer_of(s, s.vision.images, s.vision.patches / s.vision.tower.square());
  merger.stream.hidden = s.vision.tower.merged();
  return merger;
}

}  // namespace plumbline
