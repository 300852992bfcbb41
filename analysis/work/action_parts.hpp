// Puts the work of an action together, part by part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

/// Parts in the order in which they run.
class WorkBuilder {
 public:
  /// `gathers`: values are gathered with every ZeRO stage.
  explicit WorkBuilder(const StageShape& shape, bool gathers = false) : s_(shape), gathers_(gathers) {
    work.gathers_ahead = gathers || shape.overlap_param_gather;
    work.scatters_go_on = shape.overlap_grad_reduce;
  }

  /// A part that uses the values of a unit, or computes its weight gradient, or neither. `unit`: its padded
  /// elements. Fills the calls by `write(list)`.
  struct Kind {
    bool values = false;
    bool gradient = false;
  };
  template <class Write>
  std::size_t part(Kind kind, std::int64_t unit, Write&& write) {
    CallList list(s_);
    if (kind.gradient && s_.zero >= 2) list.memory("fill", unit, static_cast<double>(s_.g()), s_.grad_type);
    write(list);
    UnitWork part;
    part.calls = std::move(list.calls);
    part.final_gradient = kind.gradient;
    if (kind.values && (s_.zero >= 3 || gathers_)) {
      part.gather = CallList::collective_call(CallKind::all_gather, "parameter all-gather", Group::data,
                                              s_.data, unit, s_.type);
    }
    if (kind.gradient && s_.zero >= 2) {
      part.scatter = CallList::collective_call(CallKind::reduce_scatter, "gradient reduce-scatter",
                                               Group::data, s_.data, unit, s_.grad_type);
      part.accumulate =
          CallList::memory_call("add", unit / s_.data, 3 * static_cast<double>(s_.g()), s_.grad_type);
    }
    work.parts.push_back(std::move(part));
    return work.parts.size() - 1;
  }
  void run(std::size_t part, std::int64_t repeat) {
    if (repeat == 0) return;
    if (!work.runs.empty() && work.runs.back().part == part) {
      work.runs.back().repeat += repeat;
    } else {
      work.runs.push_back({part, repeat});
    }
  }
  template <class Write>
  void once(Kind kind, std::int64_t unit, Write&& write) {
    run(part(kind, unit, write), 1);
  }

  /// Units have their values from their first use on.
  bool gathers_once() const { return gathers_ && s_.zero < 3; }

  ActionWork work;

 private:
  const StageShape& s_;
  const bool gathers_;
};

/// Parts of single layers, one for every window that layers of the stage have.
class LayerParts {
 public:
  /// `make(window)` makes a part.
  template <class Make>
  LayerParts(const StageShape& s, Make&& make) : s_(s) {
    if (s.windows.empty()) parts_.push_back({0, make(std::int64_t{0})});
    for (const AlikeLayers& alike : s.windows) {
      if (find(alike.window) == parts_.end()) parts_.push_back({alike.window, make(alike.window)});
    }
  }
  /// Runs those of the layers [first, end), ascending.
  void run(WorkBuilder& builder, std::int64_t first, std::int64_t end) const {
    for (std::int64_t layer = first; layer < end; ++layer) builder.run(of(layer), 1);
  }
  void run_descending(WorkBuilder& builder, std::int64_t first, std::int64_t end) const {
    for (std::int64_t layer = end; layer-- > first;) builder.run(of(layer), 1);
  }

 private:
  struct Part {
    std::int64_t window;
    std::size_t part;
  };
  std::vector<Part>::const_iterator find(std::int64_t window) const {
    return std::find_if(parts_.begin(), parts_.end(),
                        [&](const Part& part) { return part.window == window; });
  }
  std::size_t of(std::int64_t layer) const { return find(s_.window_of(layer))->part; }

  const StageShape& s_;
  std::vector<Part> parts_;
};

}  // namespace plumbline
