// Where in a rank's list of actions the gradients of its units become final.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/work/shapes.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// An action after which gradients of its stage are complete.
struct FinalAction {
  std::size_t position = 0;  // in the rank's list
  FinalUnits units;
};

/// The final actions of one rank, by position. Weights of layers and the output layer get gradients in B and
/// W, embedding and positions in B and I; an embedding that is also the output layer in both. A vocabulary
/// that is split over all ranks: the output layer in T, the embedding in IB.
/// `stages`: shapes of all stages of the schedule.
std::vector<FinalAction> final_actions(std::span<const StageShape> stages,
                                       const std::vector<Action>& actions);

}  // namespace plumbline
