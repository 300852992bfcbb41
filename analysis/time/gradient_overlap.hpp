// Overlap of the data-parallel gradient reduction with the last backwards, and the rest that ARG waits for.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "analysis/simulate/step_summary.hpp"
#include "analysis/step/stage_kinds.hpp"
#include "analysis/time/action_time.hpp"

namespace plumbline {

/// The priced actions of a stage, by action type.
using StageActions = std::array<ActionTime, kActionTypes>;

/// Costs that reductions add to a step.
struct ReductionCosts {
  /// By stage: waiting within its last B or W; of deferred output gradients I.
  std::vector<Seconds> last_backward;
  std::vector<Seconds> reduce_gradients;       // by stage: waiting within the ARG that names it
  std::vector<std::vector<LaneSpan>> lanes{};  // by rank: every reduction, from the begin of its ARG
};

/// A bucket of gradients with the times of its collectives.
struct PricedBucket {
  std::vector<std::size_t> units;  // of the stage
  bool at_end = false;             // reduced when ARG begins
  Group group = Group::data;
  double seconds = 0;
  double copy = 0;     // of its reduced piece, where it is copied
  double between = 0;  // of `seconds`, at its end: the sum between instances of the optimizer
};

/// The buckets of every stage. `price`: wall time of a call on the data group.
std::vector<std::vector<PricedBucket>> priced_buckets(
    const RunConfig& config, const StageKinds& kinds,
    const std::function<Seconds(const OperatorCall&)>& price);

/// `summary` is of a simulation in which last backwards already wait for `assumed.last_backward` (all 0 at
/// first) and ARG costs nothing. Z = 0: a bucket's all-reduce
/// starts when the last gradient of its units is final, the remaining ones when ARG begins; ARG lasts until
/// all are done. Z = 1: units run one after another in the order in which they become final. The backward
/// waits for the unit before, copies its piece and continues; ARG waits for the last. Collectives of the data
/// group follow one another on a lane of their own during the computation.
ReductionCosts reduction_costs(const Schedule& schedule, const std::vector<StageShape>& shapes,
                               const std::vector<std::vector<PricedBucket>>& buckets,
                               const std::vector<StageActions>& actions, const StepSummary& summary,
                               const ReductionCosts& assumed);

}  // namespace plumbline
