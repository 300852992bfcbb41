// The simulator against times worked out by hand.
#include "analysis/simulator.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

constexpr StageCosts kUnit{.forward = {1}, .backward = {2}};

TEST(Simulator, SharesProcessorsAmongBusyRanks) {
  // Two ranks, one processor, one micro-batch: never two busy at once, so nothing slows down.
  Costs costs = uniform_costs(2, kUnit);
  costs.processors = 1;
  EXPECT_DOUBLE_EQ(simulate(one_f_one_b(2, 1), costs).makespan().value, 6);
  // With two: whenever both are busy both run at half speed; all work is done on one processor without a gap.
  const Trace trace = simulate(gpipe(2, 2), costs);
  EXPECT_DOUBLE_EQ(trace.makespan().value, 12);
  EXPECT_DOUBLE_EQ(trace.ranks[0][1].start.value, 1);
  EXPECT_DOUBLE_EQ(trace.ranks[0][1].end.value, 3);
  EXPECT_DOUBLE_EQ(trace.ranks[1][0].end.value, 3);
  // Two processes behind each rank: always oversubscribed.
  costs.processors = 2;
  costs.processes_per_rank = 2;
  EXPECT_DOUBLE_EQ(simulate(gpipe(2, 2), costs).makespan().value, 12);
}

TEST(Simulator, SharedAndStaticSweepAgreeWhenNothingIsShared) {
  Costs costs = uniform_costs(4, kUnit);
  costs.transfer = {0.25};
  costs.latency = {0.125};
  const Schedule schedule = add_step_end(add_transfers(one_f_one_b(4, 8)), {});
  const Trace expected = simulate(schedule, costs);
  // Oversubscribed by count, but with one process per processor at a time the speed stays 1.
  costs.processors = 4;
  costs.processes_per_rank = 1;
  EXPECT_EQ(simulate(schedule, costs).makespan().value, expected.makespan().value);
}

TEST(Simulator, TransfersTakeTheirLink) {
  Costs costs = uniform_costs(2, kUnit);
  costs.transfer = {0.5};
  costs.latency = {0.25};
  // F0 1, transfer 0.5 + 0.25, F 1, B 2, back 0.75, B 2.
  for (const Schedule& schedule : {gpipe(2, 1), add_transfers(gpipe(2, 1))}) {
    EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan().value, 7.5);
  }
  // Copied by the receiver entirely: the same when it waits.
  costs.receive_busy = {0.5};
  for (const Schedule& schedule : {gpipe(2, 1), add_transfers(gpipe(2, 1))}) {
    EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan().value, 7.5);
  }
}

TEST(Simulator, RejectsCostsThatDoNotFit) {
  EXPECT_THROW(simulate(gpipe(2, 1), uniform_costs(3, kUnit)), InputError);
  Costs costs = uniform_costs(2, kUnit);
  costs.transfer = {-1};
  EXPECT_THROW(simulate(gpipe(2, 1), costs), InputError);
}

}  // namespace
}  // namespace plumbline
