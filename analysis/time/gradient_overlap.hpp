// Overlap of the data-parallel gradient reduction with the last backwards, and the rest that ARG waits for.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "analysis/simulate/step_summary.hpp"
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

/// `summary` is of a simulation in which last backwards already wait for `assumed.last_backward` (all 0 at
/// first) and ARG costs nothing. `price`: wall time of a call on the data group. Z = 0: a bucket's all-reduce
/// starts when the last gradient of its units is final, the remaining ones when ARG begins; ARG lasts until
/// all are done. Z = 1: units run one after another in the order in which they become final. The backward
/// waits for the unit before, copies its piece and continues; ARG waits for the last. Collectives of the data
/// group follow one another on a lane of their own during the computation.
ReductionCosts reduction_costs(const RunConfig& config, const Schedule& schedule,
                               const std::vector<StageShape>& shapes,
                               const std::vector<StageActions>& actions, const StepSummary& summary,
                               const ReductionCosts& assumed,
                               const std::function<Seconds(const OperatorCall&)>& price);

}  // namespace plumbline
