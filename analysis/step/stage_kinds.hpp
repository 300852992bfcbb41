// Equivalence classes of stages that differ only in their position, and of ranks that hold such stages.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// True if only the stages' places in the schedule (`stage`, `route`) may differ.
bool differ_in_place_only(const StageShape& a, const StageShape& b);

/// The stages of a schedule by kind: those of a kind differ only in `stage` and `route`. Ranks of a kind hold
/// stages of the same kinds in the same order.
struct StageKinds {
  StageKinds(std::vector<StageShape> all, const Schedule& schedule);

  /// The stages of a rank in ascending order.
  std::vector<StageShape> on_rank(int rank) const;

  std::vector<StageShape> shapes;                     // by stage, as stage_shapes() gives them
  std::vector<std::size_t> of_stage;                  // its kind
  std::vector<std::size_t> first_stage;               // of each kind of stage
  std::vector<std::size_t> of_rank;                   // its kind
  std::vector<int> first_rank;                        // of each kind of rank
  std::vector<std::vector<std::size_t>> stages_held;  // by rank
};

}  // namespace plumbline
