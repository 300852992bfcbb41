// The actions of a step as a walk over its memory sees them: what a rank does again and again is written down once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/work/shapes.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Last positions of a stage's weight gradients in its rank's list.
struct LastGradients {
  std::size_t stage = 0;
  std::uint32_t layers = 0;     // B or W
  std::uint32_t output = 0;     // the same: the output layer's, if not split
  std::uint32_t embedding = 0;  // B or I; positions
  std::uint32_t scores = 0;     // T
  std::uint32_t input = 0;      // IB
};

/// What a step has of actions, whatever they allocate.
struct MemoryPlan {
  struct Item {
    Action action;                      // when it is done first
    std::uint32_t last_microbatch = 0;  // when it is done last
    std::uint32_t position = 0;         // in the rank's list, when it is done first
    bool with_extra = true;             // as of action_profile
    bool has_last_gradient = false;     // one of the positions of LastGradients
  };
  /// Neighbouring items, done in turn `times` times.
  struct Run {
    std::uint32_t first = 0;
    std::uint32_t items = 0;
    std::int64_t times = 1;
    std::int64_t copy = 0;  // of the step's period, as of RepeatedSchedule::in_step
  };
  struct Rank {
    std::vector<Item> items;
    std::vector<Run> runs;
    std::vector<LastGradients> last;  // of stages that have a backward
  };
  std::vector<Rank> ranks;
};

/// The plan of a step. `teacher`: its last stages compute a loss of two models, in the later one's forward. Of the
/// copies that are not written down one stands for all: it does all that is done for one micro-batch, though not for
/// the same, and leaves nothing behind; the first of them may be the fullest moment.
/// `by_action`: every run has one action, as a timeline wants.
MemoryPlan memory_plan(const RepeatedSchedule& step, bool teacher, bool by_action = false);

/// An action after which gradients of its stage are complete.
struct FinalAction {
  std::uint32_t position = 0;  // in the rank's list
  FinalUnits units;
};

/// The final actions of one rank, by position. Weights of layers and the output layer get gradients in B and
/// W, embedding and positions in B and I; an embedding that is also the output layer in both. A vocabulary
/// that is split over all ranks: the output layer in T, the embedding in IB.
/// `stages`: shapes of all stages of the schedule.
std::vector<FinalAction> final_actions(std::span<const StageShape> stages,
                                       const std::vector<LastGradients>& last);

}  // namespace plumbline
