// The actions of a step for a walk over its memory: repetitions of a rank are written down once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/step/stage_shape.hpp"
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

/// Actions of a step, independent of the memory they allocate.
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

/// The plan of a step. `teacher`: its last stages compute a loss of two models, in the later one's forward.
/// `by_action`: every run has one action, as a timeline needs. One copy stands for all copies of a period
/// that are not written out. It does the work of one micro-batch, though not all for the same one, and leaves
/// nothing behind. The first of them may hold the peak.
MemoryPlan memory_plan(const RepeatedSchedule& step, bool teacher, bool by_action = false);

/// An action after which gradients of its stage are complete.
struct FinalAction {
  std::uint32_t position = 0;  // in the rank's list
  FinalUnits units;
};

/// The final actions of one rank, by position. Weights of layers and the output layer get gradients in B and
/// W, embedding and positions in B and I. A tied embedding gets them in both. A vocabulary that is split over
/// all ranks: the output layer in T, the embedding in IB. `stages`: shapes of all stages of the schedule.
std::vector<FinalAction> final_actions(std::span<const StageShape> stages,
                                       const std::vector<LastGradients>& last);

}  // namespace plumbline
