// The units of parameters that an action gathers, and those whose gradients it reduces.
#include <algorithm>
#include <vector>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

std::vector<std::int64_t> StageReplay::units_in_order_of_use(ActionType type) const {
  std::vector<std::int64_t> units;
  if (s_.sharding.zero < 3 || s_.pieces() == 1 || type == ActionType::backward_weight) return units;
  const auto use = [&](std::int64_t elements) { units.push_back(elements * s_.numerics.e()); };
  const auto use_layers = [&] {
    for (const std::int64_t layer : layers_in_order_of_use(type)) use(unit_of_layer(layer));
  };
  // The teacher of a student is whole; a model that only scores has neither student nor modules.
  const std::int64_t modules = type == ActionType::teacher_forward ? 0 : s_.own_modules();
  if (type == ActionType::forward || type == ActionType::teacher_forward) {
    if (s_.embeds()) use(vocabulary_unit_);
    if (s_.place.first && s_.ends.positions > 0) use(position_unit_);
    use_layers();
    if (modules > 0) use(vocabulary_unit_);
    for (std::int64_t i = 0; i < modules; ++i) use(module_unit_);
    if (s_.scores()) use(output_unit_);
    return units;
  }
  if (type == ActionType::input_forward || type == ActionType::vocab_forward ||
      (type == ActionType::vocab_backward && s_.vocabulary.two_barriers)) {
    use(vocabulary_unit_);
    return units;
  }
  if (type == ActionType::vocab_backward || type == ActionType::input_backward) return units;
  if (s_.scores()) use(output_unit_);
  for (std::int64_t i = 0; i < s_.own_modules(); ++i) use(module_unit_);
  use_layers();
  return units;
}

std::vector<std::int64_t> StageReplay::experts_in_order_of_use(ActionType type) const {
  const bool passes =
      type == ActionType::forward || type == ActionType::backward || type == ActionType::backward_input;
  if (s_.sharding.zero < 3 || !passes || !s_.exchanges_rows() || s_.expert.copies == 1) return {};
  std::vector<std::int64_t> units(static_cast<std::size_t>(s_.own_modules()), spread_unit_ * s_.numerics.e());
  for (const std::int64_t layer : layers_in_order_of_use(type))
    if (!s_.kind_of(layer).dense) units.push_back(spread_unit_ * s_.numerics.e());
  return units;
}

/// Layers in the order of a forward, else in that of B or I.
std::vector<std::int64_t> StageReplay::layers_in_order_of_use(ActionType type) const {
  std::vector<std::int64_t> layers;
  layers.reserve(static_cast<std::size_t>(2 * s_.layers));
  if (type == ActionType::forward) {
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) layers.push_back(layer);
    return layers;
  }
  // The last layer of a recomputed group is used once, for both ways: an immediate repeat.
  const std::int64_t size = group_size();
  for (std::int64_t begin = (s_.layers - 1) / size * size; begin >= 0; begin -= size) {
    const std::int64_t end = std::min(begin + size, s_.layers);
    for (std::int64_t layer = begin; layer < end; ++layer) layers.push_back(layer);
    for (std::int64_t layer = end - 1; layer-- > begin;) layers.push_back(layer);
  }
  return layers;
}

/// Begins the use of the current layer's values, and of its experts' where they are separate units.
void StageReplay::begin_layer_use() {
  values_.begin_use();
  if (spread()) expert_values_.begin_use();
}

void StageReplay::end_layer_use() {
  values_.end_use();
  if (spread()) expert_values_.end_use();
}

void StageReplay::first_gradient_of(std::int64_t unit) {
  if (s_.sharding.zero >= 2) take(Category::gradients, unit * s_.numerics.g());
}

/// Experts are units of their own, and other ranks have the same.
bool StageReplay::sums_experts() const {
  return spread() && (s_.expert.copies > 1 || s_.has_instances());
}

void StageReplay::first_gradient_of_experts() {
  if (sums_experts()) first_gradient_of(spread_unit_);
}

/// Marks the current layer's gradients as done, its experts' first where they are separate units.
void StageReplay::layer_gradients_done() {
  if (sums_experts()) gradient_done(spread_unit_, s_.expert.copies, final_.layers);
  gradient_done(layer_unit_, final_.layers);
}

void StageReplay::gradient_done(std::int64_t unit, bool is_final) {
  gradient_done(unit, s_.pieces(), is_final);
}

void StageReplay::gradient_done(std::int64_t unit, int copies, bool is_final) {
  lookup_under_way_ = false;
  if (unit == 0) return;  // frozen
  const std::int64_t piece = unit / copies * s_.numerics.g();
  if (s_.sharding.zero >= 2) {
    under_way_.start(replay_, unit * s_.numerics.g(), piece);
    if (!s_.overlap.grad_reduce) under_way_.finish(replay_);
  } else if (s_.sharding.zero == 1 && is_final && s_.overlap.grad_reduce) {
    under_way_.start(replay_, 0, piece);
  }
}

void StageReplay::end_of_action() {
  if (s_.sharding.zero >= 2) under_way_.finish(replay_);
}

}  // namespace plumbline
