// Puts the work of an action together, part by part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {

/// Parts of an action in the order in which they run.
class PartList {
 public:
  explicit PartList(const StageShape& shape) {
    work.gathers_ahead = shape.overlap.param_gather;
    work.scatters_go_on = shape.overlap.grad_reduce;
    work.slower_alongside = !shape.traits.own_lists;
  }
  std::size_t add(UnitWork part) {
    work.parts.push_back(std::move(part));
    return work.parts.size() - 1;
  }
  /// `layer`: one of a stage that offloads some.
  void run(std::size_t part, std::int64_t repeat = 1, std::int64_t layer = -1) {
    if (repeat == 0) return;
    if (layer < 0 && !work.runs.empty() && work.runs.back().part == part && work.runs.back().layer < 0) {
      work.runs.back().repeat += repeat;
    } else {
      work.runs.push_back({part, repeat, layer});
    }
  }

  ActionWork work;
};

/// The parts of plumbline's own step.
class WorkBuilder : public PartList {
 public:
  /// `first`: the first forward of a step, which gathers values with every ZeRO stage, and from all ranks.
  explicit WorkBuilder(const StageShape& shape, bool first = false)
      : PartList(shape), s_(shape), first_(first) {}

  /// A part that uses the values of a unit, or computes its weight gradient, or neither. `unit`: its padded
  /// elements. Fills the calls by `write(list)`. `again`: every forward uses the values earlier, too.
  struct Kind {
    bool values = false;
    bool gradient = false;
    bool again = false;
    bool shard = false;  // of the vocabulary: always gathered from all ranks
    bool layer = false;  // adapters have gradients alone
  };
  bool gathers(Kind kind) const { return kind.values && (s_.sharding.zero >= 3 || (first_ && !kind.again)); }
  template <class Write>
  std::size_t part(Kind kind, std::int64_t unit, Write&& write) {
    return part(s_, kind, unit, write);
  }
  /// The same for layers that are like `shape`.
  template <class Write>
  std::size_t part(const StageShape& shape, Kind kind, std::int64_t unit, Write&& write) {
    CallList list(shape);
    const std::int64_t trained = !s_.adapters.own ? unit : kind.layer ? trainable_layer(shape) : 0;
    const bool scatters = kind.gradient && s_.sharding.zero >= 2 && trained > 0;
    if (scatters) list.memory("fill", trained, static_cast<double>(s_.numerics.g()), s_.numerics.grad_type);
    const bool gathered = gathers(kind) && s_.pieces() > 1;
    const bool secondary = s_.sharding.keeps_secondary_shards() && !kind.shard;
    const bool from_all = !secondary || (first_ && !kind.again);
    if (gathered && from_all && secondary)
      list.memory("copy", unit / s_.sharding.secondary_shards, 2 * static_cast<double>(s_.numerics.e()));
    write(list);
    UnitWork part;
    part.calls = std::move(list.calls);
    part.final_gradient = kind.gradient;
    if (gathered) {
      part.gather = CallList::collective_call(
          CallKind::all_gather,
          from_all ? "parameter all-gather" : "parameter all-gather of secondary shards",
          from_all ? s_.piece_group() : Group::zero_param,
          from_all ? s_.pieces() : s_.sharding.secondary_shards, unit, s_.numerics.type);
    }
    if (scatters) {
      std::tie(part.scatter, part.between) = gradient_scatter(s_, s_.piece_group(), s_.pieces(), trained);
      part.accumulate = CallList::memory_call(
          "add", trained / s_.pieces(), 3 * static_cast<double>(s_.numerics.g()), s_.numerics.grad_type);
    }
    return add(std::move(part));
  }
  template <class Write>
  void once(Kind kind, std::int64_t unit, Write&& write) {
    run(part(kind, unit, write));
  }

 private:
  const StageShape& s_;
  const bool first_;
};

/// Parts of single layers, one for every kind of them.
class LayerParts {
 public:
  /// `make(shape, window)` makes a part of a layer; shape: the stage as if all its layers were like it.
  /// `windows`: they make a difference; `last_first`: parts are made from the last layer on.
  template <class Make>
  LayerParts(const StageShape& s, Make&& make, bool windows = true, bool last_first = false)
      : s_(s), windows_(windows) {
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const std::int64_t layer = last_first ? s.layers - 1 - i : i;
      const LayerKind kind = kind_of(layer);
      if (find(kind) == parts_.end()) parts_.push_back({kind, make(s.like(kind), kind.window)});
    }
  }
  /// Runs those of the layers [first, end), ascending.
  void run(PartList& parts, std::int64_t first, std::int64_t end) const {
    for (std::int64_t layer = first; layer < end; ++layer) parts.run(of(layer), 1, numbered(layer));
  }
  void run_descending(PartList& parts, std::int64_t first, std::int64_t end) const {
    for (std::int64_t layer = end; layer-- > first;) parts.run(of(layer), 1, numbered(layer));
  }

 private:
  struct Part {
    LayerKind kind;
    std::size_t part;
  };
  LayerKind kind_of(std::int64_t layer) const {
    LayerKind kind = s_.kind_of(layer);
    if (!windows_) kind.window = 0;
    return kind;
  }
  std::vector<Part>::const_iterator find(const LayerKind& kind) const {
    return std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.kind == kind; });
  }
  std::size_t of(std::int64_t layer) const { return find(kind_of(layer))->part; }
  std::int64_t numbered(std::int64_t layer) const { return s_.recomputation.offloaded > 0 ? layer : -1; }

  const StageShape& s_;
  const bool windows_;
  std::vector<Part> parts_;
};

}  // namespace plumbline
