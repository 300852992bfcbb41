#include "analysis/step/stage_shape.hpp"

namespace plumbline {

std::int64_t AttentionWidths::window_of(std::int64_t layer) const {
  std::int64_t end = 0;
  for (const AlikeLayers& alike : windows) {
    end += alike.layers;
    if (layer < end) return alike.window;
  }
  return 0;
}

StageShape StageShape::like_layer(std::int64_t layer) const {
  StageShape alike = *this;
  alike.moe.dense_layers = 0;
  if (!moe.known_rows.empty()) {
    const KnownRows& known = moe.known_rows[static_cast<std::size_t>(layer)];
    alike.moe.choice_rows = known.sent;
    if (exchanges_rows()) alike.expert.rows = known.here;
    alike.moe.known_rows.clear();
  }
  if (layer >= moe.dense_layers) return alike;
  alike.moe.experts = alike.moe.choices = alike.moe.choice_rows = alike.moe.shared = 0;
  alike.expert = {};
  alike.moe.expert_bias = alike.moe.global_balance = false;
  alike.mlp.ffn = moe.dense_ffn;
  alike.mlp.fc1 = (mlp.swiglu ? 2 : 1) * moe.dense_ffn;
  return alike;
}

}  // namespace plumbline
