// A step that repeats itself, continued without simulating it, is the step that is simulated whole: bitwise.
#include "analysis/simulate/step_simulation.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "analysis/simulate/simulation_report.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "schedules/passes.hpp"
#include "schedules/repeating.hpp"

namespace plumbline::step_simulation_test {
namespace {

void expect_same(const StepSummary& a, const StepSummary& b, const std::string& what) {
  EXPECT_EQ(a.makespan, b.makespan) << what;
  EXPECT_EQ(a.pipeline_end, b.pipeline_end) << what;
  EXPECT_EQ(a.busy, b.busy) << what;
  EXPECT_EQ(a.reducing, b.reducing) << what;
  EXPECT_EQ(a.optimizing, b.optimizing) << what;
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (std::size_t stage = 0; stage < a.stages.size(); ++stage) {
    for (const auto member : {&StepSummary::StageEnds::weights, &StepSummary::StageEnds::inputs,
                              &StepSummary::StageEnds::scores, &StepSummary::StageEnds::look_up}) {
      const auto& one = a.stages[stage].*member;
      const auto& other = b.stages[stage].*member;
      ASSERT_EQ(one.has_value(), other.has_value()) << what;
      if (!one) continue;
      EXPECT_EQ(one->end, other->end) << what;
      EXPECT_EQ(one->type, other->type) << what;
    }
  }
  ASSERT_EQ(a.reductions.size(), b.reductions.size());
  for (std::size_t rank = 0; rank < a.reductions.size(); ++rank) {
    ASSERT_EQ(a.reductions[rank].has_value(), b.reductions[rank].has_value()) << what;
    if (!a.reductions[rank]) continue;
    EXPECT_EQ(a.reductions[rank]->start, b.reductions[rank]->start) << what;
  }
}

/// Names of schedules that repeat themselves.
std::vector<std::string> repeating_names() {
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : known_schedules()) {
    if (traits.repeats) names.emplace_back(traits.name);
  }
  return names;
}

Seconds any_time() {
  return {*rc::gen::inRange(0, 1000) * 1e-3};
}

Costs any_costs(const Schedule& schedule) {
  const auto sometimes = [](Seconds time) { return *rc::gen::arbitrary<bool>() ? time : Seconds{0}; };
  Costs costs;
  const StageCosts alike{any_time(), any_time(), any_time(), any_time(), any_time()};
  const bool each = *rc::gen::arbitrary<bool>();
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageCosts mine = alike;
    // Stages differ in all of it, or only the last in a third of a millisecond.
    if (each) mine = {any_time(), any_time(), any_time(), any_time(), any_time()};
    if (stage + 1 == schedule.stages) mine.forward += Seconds{1e-3 / 3};
    mine.last_backward = sometimes(any_time());
    mine.first_forward = sometimes(any_time());
    mine.reduce_gradients = sometimes(any_time());
    costs.stages.push_back(mine);
  }
  if (*rc::gen::arbitrary<bool>()) {
    costs.transfer = any_time() / 10;
    costs.latency = any_time() / 10;
    costs.receive_busy = sometimes(costs.transfer);
    costs.teacher_transfer = any_time() / 7;
    costs.ranks_per_node = *rc::gen::inRange(0, 3);
    costs.between_nodes = {any_time(), any_time(), {}};
  }
  costs.one_send_buffer = *rc::gen::arbitrary<bool>();
  costs.overlap_factor = *rc::gen::element(1.0, 0.85, 1.3);
  costs.optimizer = any_time();
  return costs;
}

RC_GTEST_PROP(StepSimulation, ContinuedIsSimulatedWhole, ()) {
  ScheduleRequest request;
  request.name = *rc::gen::elementOf(repeating_names());
  request.ranks = 2 * *rc::gen::inRange(1, 4);
  request.microbatches = request.ranks * *rc::gen::inRange(9, 60);
  const bool transfers = *rc::gen::arbitrary<bool>();
  const auto complete = [&](const Schedule& s) {
    return add_step_end(transfers ? add_transfers(s, TransferOrder::posted) : s, {true, true});
  };
  const auto repeated = make_repeated(request, complete);
  RC_ASSERT(repeated.has_value());
  const RepeatedSchedule whole = with_copies(*repeated, repeated->copies);
  const Costs costs = any_costs(whole.once);
  StepSimulation continued(*repeated);
  StepSimulation all(whole);
  expect_same(continued.run(costs), all.run(costs), request.name);
  RC_CLASSIFY(continued.simulated_copies() < repeated->copies, "continued");
  RC_ASSERT(all.run(costs).makespan == ticks_of(simulate_makespan(whole.once, costs), "step"));
}

/// The figures of a summary are those of the trace.
RC_GTEST_PROP(StepSimulation, SummaryIsThatOfTheTrace, ()) {
  ScheduleRequest request;
  request.name = std::string(*rc::gen::elementOf(schedule_names()));
  request.ranks = 2 * *rc::gen::inRange(1, 4);
  request.microbatches = 2 * request.ranks * *rc::gen::inRange(1, 4);
  const Schedule compute = make_schedule(request);
  const RepeatedSchedule step =
      add_step_end(*rc::gen::arbitrary<bool>() ? add_transfers(compute) : compute, {true, true});
  Costs costs = any_costs(step.once);
  for (StageCosts& stage : costs.stages) stage.vocab_forward = stage.input_backward = any_time();
  if (*rc::gen::arbitrary<bool>()) costs.vocabulary = {any_time(), any_time(), any_time(), {}, any_time()};
  costs.processors = *rc::gen::element(0, 0, 1, 3);
  StepSimulation simulation(step);
  const StepSummary summary = simulation.run(costs);
  const Trace trace = simulate(step.once, costs);
  RC_ASSERT(seconds_of(summary.makespan) == trace.makespan());
  RC_ASSERT(seconds_of(summary.pipeline_end) == trace.pipeline_end());
  for (int rank = 0; rank < step.once.ranks; ++rank) {
    const double busy = seconds_of(summary.busy[static_cast<std::size_t>(rank)]).value;
    RC_ASSERT(std::abs(busy - trace.busy(rank).value) < 1e-9);
  }
  RC_ASSERT(std::abs(bubble_of(summary).fraction - bubble_of(trace).fraction) < 1e-9);
  const Seconds window = trace.pipeline_end();
  const auto near = [](Seconds a, Seconds b) { return std::abs((a - b).value) < 1e-9; };
  RC_ASSERT(near(summary.optimizing, mean_in(trace, window, {ActionType::optimizer})));
  RC_ASSERT(near(summary.reducing,
                 mean_in(trace, window, {ActionType::reduce_gradients, ActionType::reduce_embedding})));
  const Trace again = simulation.trace(costs);
  RC_ASSERT(again.makespan() == trace.makespan());
}

/// A step that would be refused if it were written down.
TEST(StepSimulation, AMillionMicrobatchesTakeWhatTheirLastStageTakes) {
  ScheduleRequest request;
  request.name = "1f1b";
  request.ranks = 32;
  request.microbatches = 100'000'000;
  const RepeatedSchedule step = *make_repeated(request, [](const Schedule& s) { return s; });
  Costs costs = uniform_costs(32, {.forward = {1e-3}, .backward = {2e-3}});
  costs.stages.back().backward = {2.5e-3};
  StepSimulation simulation(step);
  EXPECT_EQ(seconds_of(simulation.run(costs).makespan).value, 31 * 3e-3 + 1e8 * 3.5e-3);
  EXPECT_LT(simulation.simulated_copies(), 200);
  // The same plan under other costs.
  costs.stages.front().forward = {2e-3};
  EXPECT_GT(seconds_of(simulation.run(costs).makespan).value, 1e8 * 4e-3);
  costs.stages.front().forward = {1.0};
  EXPECT_THROW(simulation.run(costs), InputError);  // 3 years
}

/// Messages that take a little longer than the slowest rank needs for a micro-batch: the link sets the pace.
TEST(StepSimulation, ALinkThatIsSlowestSetsThePace) {
  for (const int ranks : {2, 4}) {
    ScheduleRequest request;
    request.name = "1f1b";
    request.ranks = ranks;
    request.microbatches = 10'000;
    const RepeatedSchedule step = *make_repeated(request, [](const Schedule& s) { return s; });
    Costs costs = uniform_costs(ranks, {.forward = {1e-3}, .backward = {2e-3}});
    costs.stages.back() = {.forward = {4e-3}, .backward = {6e-3}};
    costs.transfer = {10.005e-3};
    StepSimulation simulation(step);
    const RepeatedSchedule whole = with_copies(step, step.copies);
    StepSimulation all(whole);
    expect_same(simulation.run(costs), all.run(costs), "link");
    EXPECT_GT(seconds_of(all.run(costs).makespan).value, 10'000 * 10.004e-3);
  }
}

/// Stages that differ by a millionth: a head start lasts for thousands of turns, then another rank sets the
/// pace.
TEST(StepSimulation, StagesThatAreNearlyEqualFallBehindSlowly) {
  for (const char* name : {"1f1b", "zb-h1", "zb-v", "v-half"}) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 20'000;
    const auto make = [&] { return *make_repeated(request, [](const Schedule& s) { return s; }); };
    const RepeatedSchedule step = make();
    Costs costs = uniform_costs(
        step.once.stages,
        {.forward = {1e-3}, .backward = {2e-3}, .backward_input = {1e-3}, .backward_weight = {1e-3}});
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage)
      costs.stages[stage].forward += Seconds{1e-7} * static_cast<double>((stage * 5) % 7);
    costs.transfer = {1e-4};
    StepSimulation simulation(step);
    const RepeatedSchedule whole = with_copies(step, step.copies);
    StepSimulation all(whole);
    expect_same(simulation.run(costs), all.run(costs), name);
    EXPECT_LT(simulation.simulated_copies(), 500) << name;
    // Too long to be simulated whole.
    request.microbatches = 100'000'000;
    const RepeatedSchedule longer = make();
    EXPECT_GT(StepSimulation(longer).run(costs).makespan, 4000 * all.run(costs).makespan) << name;
  }
}

}  // namespace
}  // namespace plumbline::step_simulation_test
