// A simulated step in a few numbers, for uses that do not look at single actions.
#pragma once

#include <optional>
#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/schedule/repeated_schedule.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

struct StepSummary {
  /// The last action of its kind on a stage.
  struct Last {
    ActionType type = ActionType::backward;
    Ticks end = 0;
  };
  /// Actions that make a stage's gradients final.
  struct StageEnds {
    std::optional<Last> weights;  // B or W; if it is deferred (Schedule) the output layer's alone
    std::optional<Last> inputs;   // B or I: embedding and positions; or then all but the output layer
    std::optional<Last> scores;   // T: output layer, split over all ranks
    std::optional<Last> look_up;  // IB: embedding, split over all ranks
  };
  /// ARG of a rank: the stage that it names, and when the action before it ends.
  struct Reduction {
    int stage = 0;
    Ticks start = 0;
  };

  Ticks makespan = 0;
  Ticks pipeline_end = 0;   // of the last compute action: the pipeline's part of the step
  std::vector<Ticks> busy;  // by rank, in compute actions
  Seconds reducing;         // in ARG and ARE after the pipeline's end, waiting included, mean over ranks
  Seconds optimizing;       // the same in OPT
  std::vector<StageEnds> stages;
  std::vector<std::optional<Reduction>> reductions;  // by rank
};

/// As of the Trace (core/trace/trace.hpp).
Bubble bubble_of(const StepSummary& summary);

/// Parts of a plan that a summary reads, found once: a few nodes, and the count of each action on each rank.
class SummaryOfPlan {
 public:
  /// `periods` by rank, empty for none: nodes within one copy are counted separately.
  SummaryOfPlan(const SimulationPlan& plan, const Schedule& schedule,
                const std::vector<RepeatedSchedule::Period>& periods);

  /// `starts`: of nodes that may last longer than their cost (shared processors), else empty. `more`: copies
  /// between those of the plan, whose nodes are not in it.
  StepSummary of(const std::vector<SimulationPlan::Price>& prices, const std::vector<Ticks>& ready,
                 const std::vector<Ticks>& starts, std::int64_t more) const;

 private:
  struct Work {
    int rank = 0;
    std::uint32_t price = 0;
    std::int64_t count = 0;
    std::int64_t in_period = 0;
  };
  struct LastNode {
    ActionType type = ActionType::backward;
    std::int32_t node = -1;
  };
  struct StageNodes {
    LastNode weights, inputs, scores, look_up;
  };
  struct EndNode {
    int rank = 0;
    ActionType type = ActionType::optimizer;
    int stage = 0;
    std::int32_t node = 0;
    std::int32_t before = 0;  // on the rank
  };

  void add_lasted(const std::vector<Ticks>& ready, const std::vector<Ticks>& starts,
                  std::vector<Ticks>& busy) const;

  const SimulationPlan& plan_;
  std::vector<std::int32_t> last_compute_;  // by rank, node 0 without
  std::vector<std::int32_t> last_;
  std::vector<Work> work_;
  std::vector<StageNodes> stages_;
  std::vector<EndNode> ends_;
};

}  // namespace plumbline
