// Tensors that layers of one kind hold, and the places where kinds change.
#include <algorithm>
#include <vector>

#include "analysis/memory/stage/stage_memory.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {

std::vector<StageReplay::KindMemory> StageReplay::kinds_of(const StageShape& shape) {
  // The unit that gradients are in.
  const auto unit = [](const StageShape& s) {
    return s.adapters.own ? trainable_layer(s) : padded_layer_unit(s);
  };
  std::vector<KindMemory> kinds = {{{}, TensorBytes(shape), unit(shape)}};
  if (shape.kinds.empty()) return kinds;
  for (const AlikeLayers& alike : shape.alike_layers()) {
    const auto known = [&](const KindMemory& kind) { return kind.kind == alike.kind; };
    if (std::any_of(kinds.begin(), kinds.end(), known)) continue;
    const StageShape like = shape.like(alike.kind);
    kinds.push_back({alike.kind, TensorBytes(like), unit(like)});
  }
  return kinds;
}

const StageReplay::KindMemory& StageReplay::kind_of(std::int64_t layer) const {
  if (kinds_.size() == 1) return kinds_.front();
  LayerKind kind = s_.kind_of(layer);
  kind.window = 0;
  kind.rows = {};
  return *std::find_if(kinds_.begin(), kinds_.end(),
                       [&](const KindMemory& known) { return known.kind == kind; });
}

std::vector<std::int64_t> StageReplay::cuts_from(std::int64_t begin) const {
  std::vector<std::int64_t> cuts = cuts_;
  for (std::int64_t& cut : cuts) cut -= begin;
  return cuts;
}

std::vector<std::int64_t> StageReplay::cuts_before(std::int64_t end) const {
  std::vector<std::int64_t> cuts(cuts_.rbegin(), cuts_.rend());
  for (std::int64_t& cut : cuts) cut = end - cut;
  return cuts;
}

void StageReplay::at_layer(std::int64_t layer) {
  const bool known = !s_.moe.known_rows.empty();
  if (known) bytes_ = TensorBytes(s_.like(s_.kind_of(layer)));
  if (kinds_.size() == 1 && s_.own_modules() == 0) return;
  const KindMemory& kind = kind_of(layer);
  if (!known) bytes_ = kind.bytes;
  experts_ = s_.mixture() && !kind.kind.dense;
  layer_unit_ = unit_of_layer(layer);
}

}  // namespace plumbline
