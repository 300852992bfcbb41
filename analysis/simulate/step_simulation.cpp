#include "analysis/simulate/step_simulation.hpp"

#include <algorithm>
#include <optional>

#include "analysis/simulate/shared_processors.hpp"
#include "analysis/simulate/simulated_times.hpp"

namespace plumbline {
namespace {

/// True if a plan with options `has` serves costs that need `needs`. Nodes that take no time do no harm.
bool cover(const PlanOptions& has, const PlanOptions& needs) {
  return has.links >= needs.links && has.receive_busy >= needs.receive_busy &&
         has.last_backward >= needs.last_backward && has.first_forward >= needs.first_forward &&
         has.collectives >= needs.collectives && has.one_send_buffer == needs.one_send_buffer &&
         has.pairs_in_turn == needs.pairs_in_turn && has.ranks_per_node == needs.ranks_per_node &&
         has.links_by_rank >= needs.links_by_rank;
}

/// Plans that are not made longer to see how a step repeats itself.
constexpr std::size_t kManyNodes = std::size_t{1} << 18;

/// As many copies as fill the pipeline and some more.
std::int64_t first_copies(const RepeatedSchedule& step) {
  return std::min(step.copies, 8 + std::int64_t{2} * (step.once.ranks / std::max(step.step, 1)));
}

}  // namespace

struct StepSimulation::Prepared {
  Prepared(const RepeatedSchedule& step, std::int64_t how_many, PlanOptions plan_options)
      : copies(how_many),
        options(plan_options),
        longer(how_many > 1 ? with_copies(step, how_many) : Schedule()),
        schedule(how_many > 1 ? longer : step.once),
        plan(schedule, options),
        summary(plan, schedule, step.periods) {
    if (how_many < step.copies) turns.emplace(plan, schedule, step.periods, how_many);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  std::int64_t copies;
  PlanOptions options;
  Schedule longer;
  const Schedule& schedule;
  SimulationPlan plan;
  SummaryOfPlan summary;
  std::optional<TurnsOfPlan> turns;
};

std::int64_t StepSimulation::simulated_copies() const {
  return prepared_ == nullptr ? 0 : prepared_->copies;
}

StepSimulation::Prepared& StepSimulation::prepare(std::int64_t copies, const Costs& costs) {
  PlanOptions options = plan_options(costs);
  options.last_backward = true;  // a later caller may want it
  options.collectives = true;    // a rank waits for them also where they take no time of their own
  if (prepared_ == nullptr || prepared_->copies < copies || !cover(prepared_->options, options))
    prepared_ = std::make_shared<Prepared>(step_, copies, options);
  return *prepared_;
}

StepSummary StepSimulation::run(const Costs& costs) {
  const bool shared = shares_processors(step_.once, costs);
  std::int64_t copies = shared ? step_.copies : first_copies(step_);
  while (true) {
    const Prepared& now = prepare(copies, costs);
    copies = now.copies;
    const std::vector<SimulationPlan::Price> prices = now.plan.prices(costs);
    if (shared) {
      const SharedTimes times =
          share_processors(now.plan, prices, costs.processors, costs.processes_per_rank);
      return now.summary.of(prices, times.ready, times.start, 0);
    }
    sweep(now.plan, prices, times_);
    const std::int64_t more = step_.copies - copies;
    if (more == 0) return now.summary.of(prices, times_.ready, {}, 0);
    const bool patient = now.plan.nodes().size() > kManyNodes;
    if (now.turns->found() && now.turns->go_on(prices, more, patient, times_.ready))
      return now.summary.of(prices, times_.ready, {}, more);
    copies = std::min(step_.copies, 2 * copies);
  }
}

Trace StepSimulation::trace(const Costs& costs) {
  const Prepared& now = prepare(step_.copies, costs);
  const std::vector<SimulationPlan::Price> prices = now.plan.prices(costs);
  if (shares_processors(now.schedule, costs)) {
    const SharedTimes times = share_processors(now.plan, prices, costs.processors, costs.processes_per_rank);
    return trace_of(now.schedule, now.plan, prices, times.ready, times.start);
  }
  sweep(now.plan, prices, times_);
  return trace_of(now.schedule, now.plan, prices, times_.ready, {});
}

}  // namespace plumbline
