#include "analysis/step/stage_shape.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// A layer of a hybrid model: with another mixer than attention, or of one block.
void put_blocks(const LayerKind& kind, const Graphs& graphs, StageShape& alike) {
  alike.mixer.kind = kind.mixer;
  alike.mixer.feed_forward = kind.feed_forward;
  alike.block.blocks = (kind.mixer == Mixer::none ? 0 : 1) + (kind.feed_forward ? 1 : 0);
  if (kind.mixer == Mixer::mamba) alike.graphs.layer = graphs.mamba;
  if (kind.mixer == Mixer::none) alike.graphs.layer = graphs.router;
  if (kind.mixer == Mixer::attention) return;
  alike.attention = {};
  alike.predicted.query_norms = alike.predicted.vectors = 0;
  alike.predicted.projection_bias = false;
}

}  // namespace

LayerKind StageShape::kind_of(std::int64_t layer) const {
  LayerKind kind;
  std::int64_t end = 0;
  for (const AlikeLayers& alike : kinds) {
    end += alike.layers;
    if (layer >= end || layer >= layers) continue;
    kind = alike.kind;
    break;
  }
  if (!moe.known_rows.empty()) kind.rows = moe.known_rows[static_cast<std::size_t>(layer)];
  return kind;
}

LayerKind StageShape::module_kind() const {
  LayerKind kind;
  kind.keeps = recomputation.keeps_modules;
  kind.wide = ends.wide_modules && numerics.framework_fp8;
  return kind;
}

std::vector<AlikeLayers> StageShape::alike_layers() const {
  std::vector<AlikeLayers> all;
  std::int64_t left = layers;
  const auto add = [&](std::int64_t count, LayerKind kind) {
    count = std::min(count, left);
    if (count == 0) return;
    left -= count;
    kind.window = 0;
    if (all.empty() || all.back().kind != kind) all.push_back({0, kind});
    all.back().layers += count;
  };
  for (const AlikeLayers& alike : kinds) add(alike.layers, alike.kind);
  add(left, {});
  return all;
}

StageShape StageShape::like(const LayerKind& kind) const {
  StageShape alike = *this;
  alike.kinds.clear();
  if (!moe.known_rows.empty()) {
    alike.moe.choice_rows = kind.rows.sent;
    if (exchanges_rows()) alike.expert.rows = kind.rows.here;
    alike.moe.known_rows.clear();
  }
  if (kind.wide) {
    alike.numerics.framework_fp8 = alike.numerics.fp4 = alike.numerics.fp8_weights = false;
    alike.attention.fp8 = false;
  }
  if (kind.keeps) alike.recomputation.granularity = Recompute::none;
  if (kind.mixer != Mixer::attention || !kind.feed_forward) put_blocks(kind, graphs, alike);
  if (!kind.dense) return alike;
  alike.moe.experts = alike.moe.choices = alike.moe.choice_rows = alike.moe.shared = 0;
  alike.expert = {};
  alike.moe.expert_bias = alike.moe.global_balance = alike.moe.context_balance = false;
  if (mixture()) {
    alike.mlp.ffn = moe.dense_ffn;
    alike.mlp.fc1 = (mlp.swiglu ? 2 : 1) * moe.dense_ffn;
  }
  if (!kind.feed_forward) alike.mlp.ffn = alike.mlp.fc1 = 0;
  return alike;
}

std::int64_t StageShape::dense_layers() const {
  if (!mixture()) return layers;
  std::int64_t dense = 0;  // and those without a feed-forward layer
  for (const AlikeLayers& alike : alike_layers()) dense += alike.kind.dense ? alike.layers : 0;
  return dense;
}

}  // namespace plumbline
