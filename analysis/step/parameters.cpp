#include "analysis/step/parameters.hpp"

#include "analysis/step/vision_tower.hpp"

namespace plumbline {

std::int64_t spread_expert_matrices(const StageShape& s) {
  return s.expert.local * (s.expert.fc1 + s.expert.ffn) * s.expert_width();
}

std::int64_t feed_forward_matrices(const StageShape& s) {
  if (s.spreads_experts()) {
    const std::int64_t shared =
        s.moe.shared > 0 ? (s.mlp.fc1 / s.mlp.ffn + 1) * s.moe.shared * s.stream.hidden : 0;
    return spread_expert_matrices(s) + (s.moe.experts + 2 * s.moe.latent) * s.stream.hidden + shared +
           (s.moe.shared > 0 && s.moe.shared_gated ? s.stream.hidden : 0);
  }
  const std::int64_t one = s.mlp.fc1 * s.stream.hidden + s.stream.hidden * s.mlp.ffn;
  const std::int64_t gate = s.moe.shared > 0 && s.moe.shared_gated ? s.stream.hidden : 0;
  return s.mixture() ? s.moe.experts * (one + s.stream.hidden) + 3 * s.moe.shared * s.stream.hidden + gate
                     : one;
}

std::int64_t mamba_matrices(const StageShape& s) {
  return s.has_mamba() ? s.stream.hidden * (s.mixer.mamba.projected() + s.mixer.mamba.inner()) : 0;
}

std::int64_t qkv_matrices(const StageShape& s) {
  if (!s.attention.latent()) return s.attention.qkv() * s.stream.hidden;
  return s.attention.compressed() * s.stream.hidden +
         s.attention.q * (s.attention.query_rank > 0 ? s.attention.query_rank : s.stream.hidden) +
         (s.attention.own_keys() + s.attention.attended()) * s.attention.kv_rank;
}

LayerBiases layer_biases(const StageShape& s) {
  LayerBiases biases;
  const PredictedShape& p = s.predicted;
  if (s.attention.qkv_bias) biases.split += s.attention.qkv();
  if (p.projection_bias) biases.replicated += s.stream.hidden;
  biases.split += p.vectors;
  if (s.has_mamba()) biases.split += s.mixer.mamba.vectors();
  if (!s.mixer.feed_forward) return biases;
  if (s.mixture()) {
    const std::int64_t fc1 = s.spreads_experts() ? s.expert.fc1 : s.mlp.fc1;
    if (p.feed_forward_bias) biases.split += s.local_experts() * fc1;
    if (p.feed_forward_bias) biases.replicated += s.local_experts() * s.stream.hidden;
    if (p.router_bias) biases.replicated += s.moe.experts;
    return biases;
  }
  if (p.feed_forward_bias) biases.split += s.mlp.fc1;
  if (p.feed_forward_bias) biases.replicated += s.stream.hidden;
  biases.replicated += p.scalars;
  return biases;
}

std::int64_t parameters_per_layer(const StageShape& s) {
  return s.norm_elements() + qkv_matrices(s) + s.stream.hidden * s.attention.attended() + mamba_matrices(s) +
         feed_forward_matrices(s) + layer_biases(s).total();
}

StageParameters parameters_of(const StageShape& s) {
  StageParameters parameters;
  parameters.layers = s.over_layers(parameters_per_layer);
  parameters.layers += s.over_modules(parameters_per_layer) +
                       s.own_modules() * (s.join_elements() + 3 * s.block.norm_vectors * s.stream.hidden);
  if (s.holds_embedding() || s.ends.embedding_copy) parameters.embedding = s.ends.vocab * s.stream.hidden;
  if (s.place.first) parameters.positions = s.ends.positions * s.stream.hidden;
  if (s.place.first && s.ends.embedding_norm)
    parameters.embedding_norm = s.block.norm_vectors * s.stream.hidden;
  if (s.place.last) parameters.final_norm = s.block.norm_vectors * s.stream.hidden;
  if (s.holds_output()) parameters.output = s.ends.outputs * s.stream.hidden;
  if (s.place.last && s.ends.output_bias) parameters.output += s.ends.outputs;
  parameters.vision = tower_elements(s).all().total();
  return parameters;
}

TowerPart TowerElements::all() const {
  TowerPart sum = embedding;
  sum += layers;
  sum += mergers;
  return sum;
}

TowerPart TowerElements::trained(const VisionShape& vision) const {
  TowerPart sum;
  if (vision.trains_layers) sum += embedding;
  if (vision.trains_layers) sum += layers;
  if (vision.trains_mergers) sum += mergers;
  return sum;
}

TowerElements tower_elements(const StageShape& s) {
  TowerElements elements;
  if (!s.vision.on()) return elements;
  const VisionTower& tower = s.vision.tower;
  const std::int64_t t = s.vision.tensor;
  elements.embedding = {(tower.patch + tower.positions) * tower.hidden, tower.patch_bias ? tower.hidden : 0};
  const StageShape layer = tower_layers(s).front().layer;
  const std::int64_t biases = layer_biases(layer).total() + layer.norm_elements();
  elements.layers = {tower.layers * (parameters_per_layer(layer) - biases), tower.layers * biases};
  const std::int64_t mergers = 1 + tower.deepstack;
  elements.mergers.matrices = mergers * tower.merged() * (tower.merged() + tower.out) / t;
  elements.mergers.vectors = mergers * (tower.merged() / t + tower.out) + tower.norm(tower.hidden) +
                             tower.deepstack * tower.norm(tower.merged());
  return elements;
}

}  // namespace plumbline
