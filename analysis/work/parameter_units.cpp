#include "analysis/work/parameter_units.hpp"

#include <algorithm>
#include <numeric>

#include "analysis/step/parameters.hpp"

namespace plumbline {

namespace {

std::int64_t padded_for(const StageShape& s, int pieces, std::int64_t elements) {
  if (s.sharding.zero == 0) return elements;
  const std::int64_t multiple = std::int64_t{64} * pieces;
  return (elements + multiple - 1) / multiple * multiple;
}

/// Elements of a layer's matrices that have a unit of their own.
std::int64_t apart(const StageShape& s) {
  return s.exchanges_rows() ? spread_expert_matrices(s) : 0;
}

}  // namespace

std::int64_t padded_unit(const StageShape& s, std::int64_t elements) {
  return padded_for(s, s.pieces(), elements);
}

std::int64_t padded_layer_unit(const StageShape& s) {
  return padded_unit(s, layer_matrices(s) - apart(s));
}

std::int64_t padded_expert_unit(const StageShape& s) {
  return padded_for(s, s.expert.copies, apart(s));
}

std::int64_t padded_module_unit(const StageShape& s) {
  return padded_unit(s, layer_matrices(s) - apart(s) + s.join_elements());
}

std::int64_t padded_vocabulary_unit(const StageShape& s) {
  return padded_unit(s, s.ends.vocab * s.stream.hidden);
}

std::int64_t padded_output_unit(const StageShape& s) {
  return padded_unit(s, s.ends.outputs * s.stream.hidden);
}

std::int64_t layer_matrices(const StageShape& s) {
  return qkv_matrices(s) + s.stream.hidden * s.attention.attended() + mamba_matrices(s) +
         feed_forward_matrices(s);
}

namespace {

/// One A for all of `widths`, or one each.
AdaptedProduct column_parallel(const StageShape& s, bool each, const std::vector<std::int64_t>& widths) {
  const std::int64_t out = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  const std::int64_t r = s.adapters.rank;
  if (!each) return {out, s.stream.hidden, r, r, false, {out}};
  return {out, s.stream.hidden, r * std::ssize(widths), r, false, widths};
}

/// A part of a column-parallel layer by another framework, `layers` times, each with its own A.
void add_columns(const StageShape& s, std::int64_t layers, std::int64_t out, std::int64_t narrow,
                 std::vector<AdaptedProduct>& products) {
  products.insert(products.end(), static_cast<std::size_t>(layers),
                  AdaptedProduct{out, s.stream.hidden, narrow, s.adapters.rank});
}

}  // namespace

std::vector<AdaptedProduct> adapted_products(const StageShape& s) {
  if (s.adapters.rank == 0) return {};
  const std::int64_t r = s.adapters.rank;
  const std::int64_t h = s.stream.hidden;
  const AdapterShape& adapters = s.adapters;
  if (s.adapters.own) {
    std::vector<AdaptedProduct> own = {
        column_parallel(s, adapters.qkv_apart, {s.attention.q, s.attention.k, s.attention.values()}),
        {h, s.attention.attended(), r, r, true, {h}},
        column_parallel(s, adapters.fc1_apart, {s.mlp.ffn, s.mlp.fc1 - s.mlp.ffn}),
        {h, s.mlp.ffn, r, r, true, {h}}};
    const LoraTargets targets = s.adapters.targets;
    own.resize(targets == LoraTargets::qkv ? 1 : targets == LoraTargets::attention ? 2 : 4);
    return own;
  }
  const std::int64_t part = std::max<std::int64_t>(1, r / s.sharding.tensor);
  // Columns of W are cut: A by its rows. Rows of W are cut: A with them, B by its own.
  std::vector<AdaptedProduct> products;
  add_columns(s, 1, s.attention.q + (adapters.qkv_apart ? 0 : 2 * s.attention.k), part, products);
  if (adapters.qkv_apart) add_columns(s, 2, s.attention.k, part, products);
  if (adapters.targets != LoraTargets::qkv) products.push_back({h / s.sharding.tensor, s.attention.q, r, r});
  if (adapters.targets == LoraTargets::all) {
    const std::int64_t layers = adapters.fc1_apart ? 2 : 1;
    add_columns(s, layers, s.mlp.fc1 / layers, part, products);
    products.push_back({h / s.sharding.tensor, s.mlp.ffn, r, r});
  }
  return products;
}

std::int64_t trainable_layer(const StageShape& s) {
  if (!s.adapters.frozen()) return layer_matrices(s);
  std::int64_t elements = 0;
  for (const AdaptedProduct& product : adapted_products(s)) elements += product.elements();
  return s.adapters.own ? padded_unit(s, elements) : elements;
}

std::int64_t trainable_unit(const StageShape& s, const ParameterUnit& unit) {
  if (unit.kind == UnitKind::vision) return tower_elements(s).trained(s.vision).matrices;
  if (!s.adapters.frozen()) return unit.padded;
  return unit.kind == UnitKind::layer ? trainable_layer(s) : 0;
}

std::int64_t trainable_elements(const StageShape& s) {
  const TowerElements tower = tower_elements(s);
  const std::int64_t trained = tower.trained(s.vision).total();
  if (s.adapters.frozen()) return s.layers * trainable_layer(s) + trained;
  return elements_of(s).whole() - tower.all().total() + trained;
}

std::int64_t spread_expert_elements(const StageShape& s) {
  if (s.adapters.frozen()) return 0;
  return (s.layers - s.dense_layers() + s.weighty_modules()) * spread_expert_matrices(s);
}

std::int64_t prediction_module_matrices(const StageShape& s) {
  return layer_matrices(s) + s.join_elements();
}

std::int64_t quantized_matrices(const StageShape& s) {
  const auto of_layer = [](const StageShape& like) {
    return like.numerics.framework_fp8 ? layer_matrices(like) : std::int64_t{0};
  };
  const std::int64_t modules = s.ends.wide_modules ? 0 : s.weighty_modules();
  return s.over_layers(of_layer) + modules * prediction_module_matrices(s);
}

namespace {

/// `visit(kind, how many, elements of one, of them in experts that are spread)` in memory order.
template <class Visit>
void for_each_kind_of_unit(const StageShape& s, const Visit& visit) {
  if (s.vision.on()) visit(UnitKind::vision, 1, tower_elements(s).all().matrices, 0);
  if (s.holds_embedding()) visit(UnitKind::embedding, 1, s.ends.vocab * s.stream.hidden, 0);
  if (s.place.first && s.ends.positions > 0)
    visit(UnitKind::positions, 1, s.ends.positions * s.stream.hidden, 0);
  const auto layers = [&](std::int64_t count, const StageShape& like) {
    visit(UnitKind::layer, count, layer_matrices(like) - apart(like),
          like.exchanges_rows() || like.adapters.frozen() ? 0 : spread_expert_matrices(like));
  };
  if (s.kinds.empty()) {
    layers(s.layers, s);
  } else {
    for (const AlikeLayers& alike : s.alike_layers()) layers(alike.layers, s.like(alike.kind));
  }
  if (s.own_modules() > 0)
    visit(UnitKind::layer, s.own_modules(), layer_matrices(s) - apart(s) + s.join_elements(), 0);
  if (s.holds_output()) visit(UnitKind::output, 1, s.ends.outputs * s.stream.hidden, 0);
  if (s.ends.embedding_copy) visit(UnitKind::embedding, 1, s.ends.vocab * s.stream.hidden, 0);
  if (apart(s) > 0) visit(UnitKind::experts, s.layers - s.dense_layers() + s.own_modules(), apart(s), 0);
}

}  // namespace

std::vector<ParameterUnit> units_of(const StageShape& s) {
  std::vector<ParameterUnit> units;
  units.reserve(static_cast<std::size_t>(2 * s.layers) + 3);
  std::int64_t layer = 0;
  std::int64_t of_experts = s.dense_layers();  // which are the first
  for_each_kind_of_unit(
      s, [&](UnitKind kind, std::int64_t count, std::int64_t elements, std::int64_t experts) {
        for (std::int64_t i = 0; i < count; ++i) {
          const bool spread = kind == UnitKind::experts;
          const std::int64_t index = spread ? of_experts++ : kind == UnitKind::layer ? layer++ : 0;
          const int pieces = spread ? s.expert.copies : s.pieces();
          const std::int64_t padded = s.adapters.own ? elements : padded_for(s, pieces, elements);
          units.push_back({kind, index, elements, padded, experts, pieces,
                           spread ? Group::expert_data : s.piece_group()});
        }
      });
  return units;
}

StageVectors vectors_of(const StageShape& s) {
  StageVectors vectors;
  const auto replicated = [](const StageShape& like) { return layer_biases(like).replicated; };
  const auto split = [](const StageShape& like) { return layer_biases(like).split; };
  const auto norms = [](const StageShape& like) { return like.norm_elements(); };
  vectors.replicated = s.over_layers(norms) + s.over_layers(replicated) + s.over_modules(replicated);
  if (s.place.last) vectors.replicated += s.block.norm_vectors * s.stream.hidden;
  if (s.place.first && s.ends.embedding_norm) vectors.replicated += s.block.norm_vectors * s.stream.hidden;
  vectors.replicated += s.own_modules() * (s.norm_elements() + 3 * s.block.norm_vectors * s.stream.hidden);
  vectors.split = s.over_layers(split) + s.over_modules(split);
  if (s.place.last && s.ends.output_bias) vectors.split += s.ends.outputs;
  vectors.replicated += tower_elements(s).all().vectors;
  return vectors;
}

StageElements elements_of(const StageShape& s) {
  StageElements elements;
  elements.vectors = vectors_of(s).total();
  const auto add = [&](std::int64_t count, std::int64_t each, int pieces, bool of_layers = true) {
    const std::int64_t padded = s.adapters.own ? each : padded_for(s, pieces, each);
    elements.matrices += count * padded;
    elements.pieces += count * padded / pieces;
    if (of_layers) return;
    elements.others += count * padded;
    elements.other_pieces += count * padded / pieces;
  };
  for_each_kind_of_unit(s, [&](UnitKind kind, std::int64_t count, std::int64_t each, std::int64_t) {
    add(count, each, kind == UnitKind::experts ? s.expert.copies : s.pieces(),
        kind == UnitKind::experts || kind == UnitKind::layer);
  });
  add(s.weighty_modules() - s.own_modules(), prediction_module_matrices(s), s.pieces());
  if (s.adapters.own) elements.matrices += s.layers * trainable_layer(s);
  return elements;
}

StageElements trained_elements_of(const StageShape& s) {
  if (!s.adapters.own) return elements_of(s);
  StageElements elements;
  elements.matrices = s.layers * trainable_layer(s);
  elements.pieces = elements.matrices / s.pieces();
  return elements;
}

}  // namespace plumbline
