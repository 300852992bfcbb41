// Properties of the simulator under random costs and schedules.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "analysis/simulate/critical_path.hpp"
#include "analysis/simulate/shared_processors.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::simulator_properties_test {
namespace {

/// Any schedule of the library at sizes that it allows.
Schedule any_schedule() {
  ScheduleRequest request;
  request.name = std::string(*rc::gen::elementOf(schedule_names()));
  request.ranks = 2 * *rc::gen::inRange(1, 4);
  request.microbatches = 2 * request.ranks * *rc::gen::inRange(1, 4);
  return make_schedule(request);
}

Seconds any_time() {
  return {*rc::gen::inRange(0, 1000) * 1e-3};
}

StageCosts any_stage() {
  return {any_time(), any_time(), any_time(), any_time(), any_time(),
          any_time(), any_time(), any_time(), any_time()};
}

Costs any_costs(const Schedule& schedule) {
  Costs costs;
  for (int stage = 0; stage < schedule.stages; ++stage) costs.stages.push_back(any_stage());
  costs.transfer = any_time() / 10;
  costs.latency = any_time() / 10;
  costs.receive_busy = *rc::gen::arbitrary<bool>() ? costs.transfer : Seconds{0};
  costs.optimizer = any_time();
  return costs;
}

/// The same with every kind of cost.
Costs any_costs_of_all_kinds(const Schedule& schedule) {
  Costs costs = any_costs(schedule);
  const auto sometimes = [](Seconds time) { return *rc::gen::arbitrary<bool>() ? time : Seconds{0}; };
  // Fractions that no tick divides.
  const Seconds odd{1e-3 / 3};
  for (StageCosts& stage : costs.stages) {
    stage.forward += sometimes(odd);
    stage.last_backward = sometimes(any_time());
    stage.first_forward = sometimes(any_time());
    stage.reduce_gradients = sometimes(any_time());
    stage.optimizer = sometimes(odd);
  }
  if (*rc::gen::arbitrary<bool>()) costs.transfer = costs.latency = costs.receive_busy = {};
  if (*rc::gen::arbitrary<bool>()) costs.teacher_transfer = any_time() / 7;
  costs.one_send_buffer = *rc::gen::arbitrary<bool>();
  costs.ranks_per_node = *rc::gen::inRange(0, 3);
  costs.between_nodes = {sometimes(any_time()), sometimes(odd), {}};
  costs.overlap_factor = *rc::gen::element(1.0, 0.85, 1.3);
  costs.reduce_gradients = sometimes(odd);
  if (*rc::gen::arbitrary<bool>())
    costs.vocabulary = {any_time() / 10, any_time() / 10, odd, any_time() / 10, any_time() / 10};
  return costs;
}

RC_GTEST_PROP(SimulatorProperties, EventsOfARankDoNotOverlapAndKeepTheirOrder, ()) {
  const Schedule schedule = any_schedule();
  const Trace trace = simulate(add_step_end(add_transfers(schedule), {true, true}), any_costs(schedule));
  for (const auto& events : trace.ranks) {
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      RC_ASSERT(events[i].end >= events[i].start);
      if (!events[i].action.overlaps_next) RC_ASSERT(events[i + 1].start.value >= events[i].end.value - 1e-9);
    }
  }
}

RC_GTEST_PROP(SimulatorProperties, ALongerActionNeverShortensTheStep, ()) {
  const Schedule schedule = any_schedule();
  const Schedule complete = *rc::gen::arbitrary<bool>() ? add_transfers(schedule) : schedule;
  const Costs costs = any_costs(schedule);
  Costs longer = costs;
  StageCosts& stage = longer.stages[static_cast<std::size_t>(*rc::gen::inRange(0, schedule.stages))];
  Seconds* const times[] = {&stage.forward,         &stage.backward,      &stage.backward_input,
                            &stage.backward_weight, &stage.vocab_forward, &stage.teacher_forward};
  *times[*rc::gen::inRange(0, 6)] += any_time();
  RC_ASSERT(simulate_makespan(complete, longer).value >= simulate_makespan(complete, costs).value - 1e-9);
  longer.latency += any_time();
  RC_ASSERT(simulate_makespan(complete, longer).value >= simulate_makespan(complete, costs).value - 1e-9);
}

/// Bitwise, for any simulated schedule.
RC_GTEST_PROP(SimulatorProperties, MakespanIsThatOfTheTrace, ()) {
  const Schedule schedule = any_schedule();
  const Schedule complete =
      add_step_end(*rc::gen::arbitrary<bool>() ? add_transfers(schedule) : schedule, {true, true});
  const Costs costs = any_costs_of_all_kinds(schedule);
  RC_ASSERT(simulate_makespan(complete, costs) == simulate(complete, costs).makespan());
}

RC_GTEST_PROP(SimulatorProperties, NoStepIsShorterThanItsBusiestRank, ()) {
  const Schedule schedule = any_schedule();
  const Trace trace = simulate(schedule, any_costs(schedule));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    RC_ASSERT(trace.makespan().value >= trace.busy(rank).value - 1e-9);
  }
}

RC_GTEST_PROP(SimulatorProperties, ExplicitAndImplicitTransfersAgreeWhenTheyAreFree, ()) {
  const Schedule schedule = any_schedule();
  Costs costs = any_costs(schedule);
  costs.transfer = costs.latency = costs.receive_busy = {};
  const double implicit = simulate_makespan(schedule, costs).value;
  const double sends_first =
      simulate_makespan(add_transfers(schedule, TransferOrder::sends_first), costs).value;
  RC_ASSERT(sends_first >= implicit - 1e-9);
  // The order that serves blocking sends may only cost something where a receive comes early.
  RC_ASSERT(simulate_makespan(add_transfers(schedule), costs).value >= implicit - 1e-9);
}

RC_GTEST_PROP(SimulatorProperties, TheCriticalPathHasNoGap, ()) {
  const Schedule schedule = any_schedule();
  const Costs costs = any_costs(schedule);
  const CriticalPath path = critical_path(schedule, costs);
  Seconds sum;
  for (const CriticalPath::Share& share : path.shares) sum += share.time;
  // Messages copied by the receiver arrive before their link is free, so that links may count twice.
  if (costs.receive_busy.value == 0) RC_ASSERT(std::abs((sum - path.makespan).value) < 1e-9);
}

RC_GTEST_PROP(SimulatorProperties, EnoughProcessorsChangeNothing, ()) {
  const Schedule schedule = add_transfers(any_schedule());
  const Costs costs = any_costs(schedule);
  const SimulationPlan plan(schedule, plan_options(costs));
  const auto prices = plan.prices(costs);
  SweepTimes fixed;
  sweep(plan, prices, fixed);
  const SharedTimes shared = share_processors(plan, prices, schedule.ranks, 1);
  for (std::size_t node = 0; node < fixed.ready.size(); ++node) {
    RC_ASSERT(std::abs(fixed.ready[node] - shared.ready[node]) < 1e-9);
  }
}

RC_GTEST_PROP(SimulatorProperties, FewerProcessorsNeverHelpAndWorkIsConserved, ()) {
  const Schedule schedule = any_schedule();
  Costs costs = any_costs(schedule);
  costs.transfer = costs.latency = costs.receive_busy = {};
  const Trace alone = simulate(schedule, costs);
  double work = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) work += alone.busy(rank).value;
  costs.processors = 1;
  const double shared = simulate_makespan(schedule, costs).value;
  RC_ASSERT(shared >= alone.makespan().value - 1e-9);
  RC_ASSERT(shared >= work - 1e-6);
}

RC_GTEST_PROP(SimulatorProperties, RandomisedAutomaticSchedulesAreValid, ()) {
  ZeroBubbleCosts costs;
  const int ranks = *rc::gen::inRange(1, 9);
  const int microbatches = *rc::gen::inRange(1, 30);
  for (int rank = 0; rank < ranks; ++rank) {
    costs.forward.push_back(any_time());
    costs.backward_input.push_back(any_time());
    costs.backward_weight.push_back(any_time());
  }
  costs.transfer = any_time() / 5;
  costs.memory_limit = *rc::gen::inRange(1, 2 * ranks + 1);
  const Schedule schedule = zb_auto(ranks, microbatches, costs);
  RC_ASSERT(find_fault(schedule).rule.empty());
  for (int rank = 0; rank < ranks; ++rank) RC_ASSERT(peak_in_flight(schedule, rank) <= costs.memory_limit);
}

RC_GTEST_PROP(SimulatorProperties, VocabularyPassesAreValidForAnyTimes, ()) {
  const auto time = [] { return Seconds{*rc::gen::inRange(1, 1000) * 1e-3}; };
  const VocabTimes times{time(), time(), time(), time(), time(), time()};
  const auto passes =
      *rc::gen::element(VocabPasses::one_barrier, VocabPasses::two_barriers, VocabPasses::interlaced);
  const int ranks = *rc::gen::inRange(1, 9);
  const int microbatches = *rc::gen::inRange(1, 20);
  const Schedule schedule =
      vocab_one_f_one_b(ranks, microbatches, passes, *rc::gen::arbitrary<bool>(), times);
  RC_ASSERT(find_fault(schedule).rule.empty());
  RC_ASSERT(find_fault(add_transfers(schedule)).rule.empty());
}

}  // namespace
}  // namespace plumbline::simulator_properties_test
