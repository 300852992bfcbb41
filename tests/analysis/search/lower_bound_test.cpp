// Lower bounds of a search never exceed the simulation.
#include "analysis/search/lower_bound.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "analysis/search/longest_chain.hpp"
#include "analysis/simulate/simulator.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "schedules/repeating.hpp"

namespace plumbline::lower_bound_test {
namespace {

Seconds bounded_time() {
  return {*rc::gen::inRange(0, 1000) * 1e-3};
}

RC_GTEST_PROP(LowerBound, IsNeverLongerThanTheSimulation, ()) {
  ScheduleRequest request;
  request.name = std::string(*rc::gen::elementOf(schedule_names()));
  request.ranks = 2 * *rc::gen::inRange(1, 5);
  request.microbatches = 2 * request.ranks * *rc::gen::inRange(1, 4);
  Schedule schedule = make_schedule(request);
  const bool sends = *rc::gen::arbitrary<bool>();
  const bool ends = *rc::gen::arbitrary<bool>();
  if (sends) schedule = add_transfers(schedule);
  if (ends) schedule = add_step_end(schedule, {true, true});
  Costs costs;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageCosts& c = costs.stages.emplace_back();
    for (Seconds StageCosts::*part :
         {&StageCosts::forward, &StageCosts::backward, &StageCosts::backward_input,
          &StageCosts::backward_weight, &StageCosts::teacher_forward, &StageCosts::vocab_forward,
          &StageCosts::vocab_backward, &StageCosts::input_forward, &StageCosts::input_backward,
          &StageCosts::first_forward, &StageCosts::last_backward, &StageCosts::reduce_gradients,
          &StageCosts::optimizer}) {
      c.*part = bounded_time();
    }
  }
  costs.transfer = bounded_time() / 10;
  costs.latency = bounded_time() / 10;
  if (*rc::gen::arbitrary<bool>()) costs.receive_busy = costs.transfer;
  if (*rc::gen::arbitrary<bool>()) {
    costs.ranks_per_node = 2;
    costs.between_nodes.transfer = bounded_time();
  }
  costs.one_send_buffer = *rc::gen::arbitrary<bool>();
  costs.overlap_factor = *rc::gen::element(0.7, 1.0, 1.2);
  costs.step_overhead = bounded_time();
  const Seconds simulated = simulate(schedule, costs).makespan() + costs.step_overhead;
  RC_ASSERT(LowerBound(schedule).of(costs) <= simulated);
  // The longest chain at other costs is still a chain at these.
  if (!LowerBound(schedule).pairs()) {
    Costs others = costs;
    for (StageCosts& c : others.stages) std::swap(c.forward, c.backward);
    RC_ASSERT(LongestChain(schedule, costs).of(costs) <= simulated);
    RC_ASSERT(LongestChain(schedule, others).of(costs) <=
              LongestChain(schedule, costs).of(costs) + Seconds{1e-6});
  }
  // The bound of a longer one of the kind, from the terms of this one.
  const int times = *rc::gen::inRange(1, 5);
  request.microbatches *= times;
  Schedule longer = make_schedule(request);
  if (sends) longer = add_transfers(longer);
  if (ends) longer = add_step_end(longer, {true, true});
  RC_PRE(LowerBound(schedule).scales());
  RC_ASSERT(LowerBound(schedule).of(costs, times) <=
            simulate(longer, costs).makespan() + costs.step_overhead);
}

// A chain is as long as the step where nothing but the order and free messages hold it up.
TEST(LongestChain, IsTheSimulatedStep) {
  for (const char* name : {"1f1b", "gpipe", "zb-h1", "zb-v", "v-half", "v-min"}) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 16;
    const Schedule schedule = make_schedule(request);
    Costs costs = uniform_costs(schedule.stages, {{1}, {2}, {1.2}, {0.7}});
    costs.stages.back().forward = {1.5};
    EXPECT_NEAR(LongestChain(schedule, costs).of(costs).value, simulate_makespan(schedule, costs).value, 1e-6)
        << name;
  }
}

// A step of a million micro-batches is not written out for a bound.
TEST(LongestChain, LeavesOutStepsTooLongToWriteOut) {
  for (const int microbatches : {64, 1'000'000}) {
    ScheduleRequest request;
    request.name = "1f1b";
    request.ranks = 4;
    request.microbatches = microbatches;
    const std::optional<RepeatedSchedule> repeated =
        make_repeated(request, [](const Schedule& schedule) { return schedule; });
    const RepeatedSchedule step = repeated ? *repeated : RepeatedSchedule(make_schedule(request));
    const Costs costs = uniform_costs(4, {{1}, {2}, {}, {}});
    EXPECT_EQ(LongestChain(step, costs).of(costs).value > 0, microbatches == 64);
  }
}

// Then nothing that could be among the best is simulated unnecessarily.
TEST(LowerBound, IsExactForEqualStages) {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (const int ranks : {1, 2, 8}) {
      ScheduleRequest request;
      request.name = name;
      request.ranks = ranks;
      request.microbatches = 16;
      const Schedule schedule = make_schedule(request);
      const Costs costs = uniform_costs(ranks, {{1}, {2}, {}, {}});
      EXPECT_NEAR(LowerBound(schedule).of(costs).value, simulate_makespan(schedule, costs).value, 1e-6)
          << name << ' ' << ranks;
    }
  }
}

}  // namespace
}  // namespace plumbline::lower_bound_test
