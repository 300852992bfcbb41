#include "analysis/work/parameter_units.hpp"

#include <algorithm>

namespace plumbline {

std::int64_t padded_unit(const StageShape& s, std::int64_t elements) {
  if (s.zero == 0) return elements;
  const std::int64_t multiple = std::int64_t{64} * s.data;
  return (elements + multiple - 1) / multiple * multiple;
}

std::int64_t padded_vocabulary_unit(const StageShape& s) {
  return padded_unit(s, s.vocab * s.hidden);
}

std::int64_t layer_matrices(const StageShape& s) {
  return qkv_matrices(s) + s.hidden * s.attended() + feed_forward_matrices(s);
}

std::vector<AdaptedProduct> adapted_products(const StageShape& s) {
  if (!s.frozen()) return {};
  const std::int64_t r = s.adapter_rank;
  const std::int64_t part = std::max<std::int64_t>(1, r / s.tensor);
  // Columns of W are cut: A by its rows. Rows of W are cut: A with them, B by its own.
  std::vector<AdaptedProduct> products = {{s.q + 2 * s.k, s.hidden, part, r}};
  if (s.adapted != LoraTargets::qkv) products.push_back({s.hidden / s.tensor, s.q, r, r});
  if (s.adapted == LoraTargets::all) {
    products.push_back({s.fc1, s.hidden, part, r});
    products.push_back({s.hidden / s.tensor, s.ffn, r, r});
  }
  return products;
}

std::int64_t trainable_layer(const StageShape& s) {
  if (!s.frozen()) return layer_matrices(s);
  std::int64_t elements = 0;
  for (const AdaptedProduct& product : adapted_products(s)) elements += product.elements();
  return elements;
}

std::int64_t trainable_unit(const StageShape& s, const ParameterUnit& unit) {
  if (!s.frozen()) return unit.padded;
  return unit.kind == UnitKind::layer ? trainable_layer(s) : 0;
}

std::int64_t trainable_elements(const StageShape& s) {
  return s.frozen() ? s.layers * trainable_layer(s) : elements_of(s).whole();
}

std::int64_t spread_expert_elements(const StageShape& s) {
  return (s.layers - s.dense_layers + s.prediction_modules) * spread_expert_matrices(s);
}

std::int64_t prediction_module_matrices(const StageShape& s) {
  return layer_matrices(s) + 2 * s.hidden * s.hidden / s.tensor;
}

std::int64_t stage_layer_matrices(const StageShape& s) {
  return s.over_layers(layer_matrices) + s.prediction_modules * prediction_module_matrices(s);
}

namespace {

/// `visit(kind, how many, elements of one, of them in experts that are spread)` in memory order.
template <class Visit>
void for_each_kind_of_unit(const StageShape& s, const Visit& visit) {
  if (s.holds_embedding()) visit(UnitKind::embedding, 1, s.vocab * s.hidden, 0);
  if (s.first && s.positions > 0) visit(UnitKind::positions, 1, s.positions * s.hidden, 0);
  if (s.dense_layers > 0) visit(UnitKind::layer, s.dense_layers, layer_matrices(s.like_layer(0)), 0);
  visit(UnitKind::layer, s.layers - s.dense_layers, layer_matrices(s), spread_expert_matrices(s));
  if (s.holds_output()) visit(UnitKind::output, 1, s.vocab * s.hidden, 0);
}

}  // namespace

std::vector<ParameterUnit> units_of(const StageShape& s) {
  std::vector<ParameterUnit> units;
  units.reserve(static_cast<std::size_t>(s.layers) + 3);
  std::int64_t layer = 0;
  for_each_kind_of_unit(s,
                        [&](UnitKind kind, std::int64_t count, std::int64_t elements, std::int64_t experts) {
                          for (std::int64_t i = 0; i < count; ++i) {
                            const std::int64_t index = kind == UnitKind::layer ? layer++ : 0;
                            units.push_back({kind, index, elements, padded_unit(s, elements), experts});
                          }
                        });
  return units;
}

StageVectors vectors_of(const StageShape& s) {
  StageVectors vectors;
  const std::int64_t biases = s.linear_bias ? 2 * s.hidden : 0;  // projection and fc2
  vectors.replicated = s.layers * (s.norm_elements() + biases);
  if (s.last) vectors.replicated += s.norm_vectors * s.hidden;
  if (s.first && s.embedding_norm) vectors.replicated += s.norm_vectors * s.hidden;
  vectors.split = s.layers * ((s.qkv_bias ? s.q + 2 * s.k : 0) + (s.linear_bias ? s.fc1 : 0));
  if (s.last && s.output_bias) vectors.split += s.vocab;
  return vectors;
}

StageElements elements_of(const StageShape& s) {
  StageElements elements;
  elements.vectors = vectors_of(s).total();
  for_each_kind_of_unit(s, [&](UnitKind, std::int64_t count, std::int64_t each, std::int64_t /*experts*/) {
    elements.matrices += count * padded_unit(s, each);
  });
  elements.matrices += s.prediction_modules * padded_unit(s, prediction_module_matrices(s));
  return elements;
}

}  // namespace plumbline
