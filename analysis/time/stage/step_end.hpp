// Costs of the end of a step: reductions of gradients, and the optimizer.
#pragma once

#include <vector>

#include "analysis/simulate/step_simulation.hpp"
#include "analysis/step/stage_kinds.hpp"
#include "analysis/time/action_lanes.hpp"
#include "analysis/time/gradient_overlap.hpp"
#include "analysis/time/operand_reuse.hpp"
#include "analysis/time/stage/stage_costs.hpp"

namespace plumbline {

class StepEnd {
 public:
  /// `load`: during the pipeline's part of the step. `crowded`: slowdown of a rank while all of them work.
  /// `lanes`, if given, gets the lanes of every rank. All must outlive this.
  StepEnd(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
          const StageKinds& kinds, const OperandReuse& reuse, const Load& load, double crowded,
          std::vector<ActionLanes>* lanes);

  /// Costs of ARG, ARE and OPT at every rank's lowest stage, and their lines.
  void add(StageCostsPrediction& prediction) const;

  /// Adds what a first forward of other software waits for gathers of parameters behind its first layer's,
  /// and its line ("waits for parameters").
  void wait_for_gathers(StageCostsPrediction& prediction) const;

  /// True if the last backwards hide reductions that ARG waits for.
  bool hides_reductions() const;
  /// Adds the rest that they do not hide, to the last backwards and to ARG. `actions`: by stage.
  void hide_reductions(const std::vector<StageActions>& actions, StepSimulation& simulation,
                       StageCostsPrediction& prediction) const;

 private:
  /// Seconds of a first chunk's gather behind the update of the others: `waited` in OPT, `ahead` later.
  struct EarlyGather {
    Seconds waited;
    Seconds ahead;
  };
  EarlyGather gathered_in_update(const HeldStages& rank, const std::vector<OperatorCall>& updates,
                                 const Load& load) const;
  bool has(ActionType type) const { return present_[static_cast<std::size_t>(type)]; }
  bool overlaps_reductions() const;
  void wait_for_buckets(StageCostsPrediction& prediction) const;
  void add_gathers(int stage, double all, double begun, double wait) const;
  Seconds slower_alongside(const std::vector<OperatorCall>& calls, double hidden, int stage,
                           StageCostsPrediction& prediction) const;
  void add_rank(int rank, StageCostsPrediction& prediction) const;
  Load load_at_end(std::int64_t held_bytes) const;
  void add_lanes(ActionType type, int stage, std::vector<LaneSpan> started, Seconds now,
                 const std::vector<OperatorCall>& calls, const Load& load) const;

  const RunConfig& config_;
  const Schedule& schedule_;
  const HardwareProfile& hardware_;
  const StageKinds& kinds_;
  const std::vector<StageShape>& shapes_;  // of the kinds
  const OperandReuse& reuse_;
  const Load& load_;
  double crowded_;
  std::vector<ActionLanes>* lanes_;
  ActionTypes present_;
};

}  // namespace plumbline
