// The simulator against times worked out by hand.
#include "analysis/simulate/simulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/critical_path.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"
#include "schedules/vocabulary.hpp"

namespace plumbline::simulator_test {
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

TEST(Simulator, RanksStayOnTheirProcessor) {
  // Weight gradients that nothing waits for: three ranks become busy at once.
  using enum ActionType;
  Schedule schedule;
  schedule.ranks = schedule.stages = 3;
  schedule.rank_of_stage = {0, 1, 2};
  for (std::uint16_t stage = 0; stage < 3; ++stage) {
    schedule.actions.push_back(
        {{forward, false, stage, 0}, {backward_input, false, stage, 0}, {backward_weight, false, stage, 0}});
  }
  StageCosts each;
  each.backward_weight = {1};
  Costs costs = uniform_costs(3, each);
  costs.processors = 2;
  const Trace trace = simulate(schedule, costs);
  std::vector<double> ends;
  for (const auto& events : trace.ranks) ends.push_back(events.back().end.value);
  // The second has a processor to itself, which idles when it is done.
  EXPECT_THAT(ends, testing::ElementsAre(2.0, 1.0, 2.0));
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

/// Two chunks on one rank, two micro-batches, the backward in two parts.
Schedule two_chunks() {
  using enum ActionType;
  Schedule schedule;
  schedule.stages = schedule.microbatches = 2;
  schedule.rank_of_stage = {0, 0};
  schedule.actions.resize(1);
  for (std::uint32_t m = 0; m < 2; ++m) {
    for (const Action& action : {Action{forward, false, 0, m}, Action{forward, false, 1, m},
                                 Action{backward_input, false, 1, m}, Action{backward_weight, false, 1, m},
                                 Action{backward_input, false, 0, m}, Action{backward_weight, false, 0, m}}) {
      schedule.actions[0].push_back(action);
    }
  }
  return schedule;
}

TEST(Simulator, ChunksHaveTheirOwnTimes) {
  Costs costs;
  costs.stages = {{.forward = {1}, .backward_input = {2}, .backward_weight = {3}},
                  {.forward = {10}, .backward_input = {20}, .backward_weight = {30}}};
  EXPECT_DOUBLE_EQ(simulate(two_chunks(), costs).makespan().value, 2 * 66);
  EXPECT_DOUBLE_EQ(simulate_makespan(two_chunks(), costs).value, 2 * 66);
  // Messages between chunks of one rank are free.
  costs.transfer = costs.latency = {100};
  EXPECT_DOUBLE_EQ(simulate(two_chunks(), costs).makespan().value, 2 * 66);
}

TEST(Simulator, TheLastBackwardOfAStageMayTakeLonger) {
  Costs costs;
  costs.stages = {{.forward = {1}, .backward_input = {2}, .backward_weight = {3}},
                  {.forward = {10}, .backward_input = {20}, .backward_weight = {30}, .last_backward = {500}}};
  const Trace trace = simulate(two_chunks(), costs);
  EXPECT_DOUBLE_EQ(trace.ranks[0][3].end.value, 61);         // the first micro-batch's W as usual
  EXPECT_DOUBLE_EQ(trace.ranks[0][9].end.value, 127 + 500);  // the second's
  EXPECT_DOUBLE_EQ(simulate_makespan(two_chunks(), costs).value, 132 + 500);
  // Merged, and as the second half of an overlapped pair.
  Schedule pair;
  pair.microbatches = 2;
  pair.rank_of_stage = {0};
  using enum ActionType;
  pair.actions = {
      {{forward, false, 0, 0}, {forward, true, 0, 1}, {backward, false, 0, 0}, {backward, false, 0, 1}}};
  costs.stages = {{.forward = {1}, .backward = {2}, .last_backward = {4}}};
  EXPECT_DOUBLE_EQ(simulate(pair, costs).makespan().value, 6 + 4);
}

TEST(Simulator, TheFirstForwardOfAStageMayTakeLonger) {
  Costs costs;
  costs.stages = {{.forward = {1}, .backward_input = {2}, .backward_weight = {3}, .first_forward = {7}},
                  {.forward = {10}, .backward_input = {20}, .backward_weight = {30}, .first_forward = {500}}};
  const Trace trace = simulate(two_chunks(), costs);
  EXPECT_DOUBLE_EQ(trace.ranks[0][0].end.value, 1 + 7);
  EXPECT_DOUBLE_EQ(trace.ranks[0][1].end.value, 11 + 507);
  EXPECT_DOUBLE_EQ(simulate_makespan(two_chunks(), costs).value, 132 + 507);
  // Together with a last backward of a price of its own.
  costs.stages[0].last_backward = {40};
  EXPECT_DOUBLE_EQ(simulate_makespan(two_chunks(), costs).value, 132 + 547);
}

TEST(Simulator, TheEndOfTheStepMayDifferByRank) {
  Costs costs = uniform_costs(2, kUnit);
  costs.optimizer = {1};
  costs.stages[1].optimizer = {3};
  costs.stages[0].reduce_gradients = {5};
  const Trace trace = simulate(add_step_end(one_f_one_b(2, 1), {true, false}), costs);
  // The backward of rank 0 ends at 6, its reduction at 11; both then meet.
  EXPECT_DOUBLE_EQ(trace.ranks[0].back().end.value, 12);
  EXPECT_DOUBLE_EQ(trace.ranks[1].back().end.value, 15);
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

TEST(Simulator, TransfersBetweenNodesTakeTheirs) {
  // Two nodes of two ranks: the hop between ranks 1 and 2 leaves a node, those on either side do not. One
  // micro-batch takes each of them there and back.
  Costs costs = uniform_costs(4, kUnit);
  costs.transfer = {0.5};
  costs.latency = {0.25};
  costs.ranks_per_node = 2;
  costs.between_nodes = {{4}, {1}, {}};
  for (const Schedule& schedule : {gpipe(4, 1), add_transfers(gpipe(4, 1))}) {
    EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan().value, 4 * 1 + 4 * 2 + 4 * 0.75 + 2 * 5);
  }
  costs.between_nodes.latency = {-1};
  EXPECT_THROW(simulate(gpipe(4, 1), costs), InputError);
}

TEST(Simulator, RejectsCostsThatDoNotFit) {
  EXPECT_THROW(simulate(gpipe(2, 1), uniform_costs(3, kUnit)), InputError);
  Costs costs = uniform_costs(2, kUnit);
  costs.transfer = {-1};
  EXPECT_THROW(simulate(gpipe(2, 1), costs), InputError);
}

TEST(Simulator, ABarrierHoldsTheOptimizerBack) {
  Costs costs = uniform_costs(3, kUnit);
  costs.optimizer = {1};
  Schedule schedule = add_step_end(one_f_one_b(3, 4), {});
  const Trace held = simulate(schedule, costs);
  // The last rank is done after F·4 + B·4 + 2 F of fill; rank 0 ends at 3 · 6 = 18.
  for (const auto& events : held.ranks) EXPECT_DOUBLE_EQ(events.back().end.value, 19);
  schedule.barrier_at_end = false;
  const Trace free = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(free.ranks[0].back().end.value, 19);
  EXPECT_DOUBLE_EQ(free.ranks[1].back().end.value, 17);
  EXPECT_DOUBLE_EQ(free.ranks[2].back().end.value, 15);
}

TEST(Simulator, APairOverlapsOrRunsInTurn) {
  Costs costs = uniform_costs(4, kUnit);
  Schedule schedule = dualpipe(2, 8);
  schedule.barrier_at_end = false;
  const auto& actions = schedule.actions[0];
  const auto pair =
      std::find_if(actions.begin(), actions.end(), [](const Action& a) { return a.overlaps_next; });
  ASSERT_NE(pair, actions.end());
  const auto at = static_cast<std::size_t>(pair - actions.begin());
  const auto events = [&] { return simulate(schedule, costs).ranks[0]; };
  const Event first = events()[at];
  const Event second = events()[at + 1];
  EXPECT_EQ(first.start, second.start);
  EXPECT_EQ(first.end, second.end);
  costs.pairs_in_turn = true;
  EXPECT_DOUBLE_EQ((events()[at].end - events()[at].start).value, 1);
  EXPECT_DOUBLE_EQ((events()[at + 1].end - events()[at + 1].start).value, 2);
  EXPECT_GE(events()[at + 1].start, events()[at].end);
}

TEST(Simulator, TiedEmbeddingsMeetOnFirstAndLastRank) {
  Costs costs = uniform_costs(3, kUnit);
  costs.reduce_embedding = {0.5};
  costs.reduce_gradients = {0.25};
  Schedule schedule = add_step_end(one_f_one_b(3, 4), {true, true});
  schedule.barrier_at_end = false;
  const Trace trace = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(trace.ranks[0].back().end.value, 18.75);
  EXPECT_DOUBLE_EQ(trace.ranks[1].back().end.value, 16.25);
  EXPECT_DOUBLE_EQ(trace.ranks[2].back().end.value, 18.75);
}

TEST(Simulator, OneSendBufferStallsASenderThatRunsAhead) {
  // Rank 1 is slow: with one buffer rank 0 cannot be more than one micro-batch ahead of rank 1's receives.
  Costs costs = uniform_costs(2, kUnit);
  costs.stages[1].forward = {10};
  const Schedule schedule = add_transfers(gpipe(2, 4), TransferOrder::sends_first);
  const auto last_forward = [&] { return simulate(schedule, costs).ranks[0][6].end.value; };
  EXPECT_DOUBLE_EQ(last_forward(), 4);
  costs.one_send_buffer = true;
  // Rank 1 takes message 1 after its F0, at 11, and message 2 after its F1, at 21; F3 of rank 0 starts then.
  EXPECT_DOUBLE_EQ(last_forward(), 22);
}

TEST(Simulator, TransfersQueueOnTheirLink) {
  // Four results of 1 s each over a link that takes 3 s: the last one arrives after 1 + 4 · 3.
  Costs costs = uniform_costs(2, kUnit);
  costs.transfer = {3};
  const Trace trace = simulate(gpipe(2, 4), costs);
  EXPECT_DOUBLE_EQ(trace.ranks[1][3].start.value, 13);
}

TEST(Simulator, VocabularyPassesHoldTheLastBackward) {
  // One micro-batch, two ranks: F 1, F 1, S 1 on both, T 2 on both, then B.
  const StageCosts each{.forward = {1},
                        .backward = {2},
                        .backward_input = {},
                        .backward_weight = {},
                        .teacher_forward = {},
                        .vocab_forward = {1},
                        .vocab_backward = {2}};
  const Costs costs = uniform_costs(2, each);
  const auto end = [&](VocabPasses passes) {
    return simulate_makespan(vocab_one_f_one_b(2, 1, passes, false), costs).value;
  };
  EXPECT_DOUBLE_EQ(end(VocabPasses::two_barriers), 1 + 1 + 1 + 2 + 2 + 2);
  EXPECT_DOUBLE_EQ(end(VocabPasses::interlaced), 1 + 1 + 1 + 2 + 2 + 2);
  // With one barrier the gradient is there after S; T comes whenever.
  EXPECT_LE(end(VocabPasses::one_barrier), 9);
}

TEST(CriticalPath, NamesWhatTheStepWaitsFor) {
  Costs costs = uniform_costs(4, kUnit);
  costs.stages[2].forward = {3};
  costs.transfer = {0.5};
  const CriticalPath path = critical_path(one_f_one_b(4, 16), costs);
  EXPECT_EQ(path.slowest_stage, 2);
  EXPECT_EQ(path.shares.front().what, "stage 2 F");
  EXPECT_GT(path.on_transfers.value, 0);
  EXPECT_DOUBLE_EQ(path.on_imbalance.value, 10.5);
  Costs even = uniform_costs(4, kUnit);
  EXPECT_DOUBLE_EQ(critical_path(one_f_one_b(4, 16), even).on_imbalance.value, 0);
}

TEST(Report, CountsBusyIdleAndPeak) {
  const Schedule schedule = one_f_one_b(4, 8);
  Costs costs = uniform_costs(4, kUnit);
  costs.step_overhead = {1};
  const SimulationReport report = report_of(schedule, costs, simulate(schedule, costs));
  EXPECT_DOUBLE_EQ(report.makespan.value, 34);
  EXPECT_DOUBLE_EQ(report.bubble.ratio, 3.0 / 8);
  EXPECT_DOUBLE_EQ(report.bubble.fraction, 3.0 / 11);
  EXPECT_DOUBLE_EQ(report.ranks[3].busy.value, 24);
  EXPECT_DOUBLE_EQ(report.ranks[3].idle.value, 9);
  EXPECT_DOUBLE_EQ(report.ranks[3].peak_in_flight, 1);
  EXPECT_EQ(report.peak_rank, 0);
}

struct BrokenCosts {
  const char* text;
  const char* says;
};
constexpr BrokenCosts kBrokenCosts[] = {
    {"[]", "object"},
    {"{}", "stages"},
    {R"({"stages":[]})", "one entry per stage (2)"},
    {R"({"stages":[{"forward_us":1},{"forward_us":1}]})", "stages[0].backward_us: missing"},
    {R"({"stages":[{"forward_us":-1,"backward_us":1}]})", "forward_us"},
    {R"({"stages":[{"forward_us":"a","backward_us":1}]})", "forward_us"},
    {R"({"stages":[{"forwards_us":1,"backward_us":1}]})", "unknown key stages[0].forwards_us"},
    {R"({"stages":[{"forward_us":1,"backward_us":1}],"p2p":3})", "unknown key p2p"},
    {R"({"stages":[{"forward_us":1,"backward_us":1}],"p2p_us":-3})", "p2p_us"},
    {R"({"stages":[7]})", "c.json: stages[0]: found 7, expected a JSON object"},
    {R"({"stages":[{"forward_us":1,"backward_us":1}],"c1_us":3})", "no vocabulary passes"},
    {R"({"stages":[{"forward_us":1,"backward_us":1}],"c3_us":3})", "unknown key c3_us"},
};

TEST(CostsJson, CollectivesOfACutVocabulary) {
  const Schedule schedule = vocab_one_f_one_b(2, 4, VocabPasses::two_barriers);
  const std::string stage =
      R"({"stages":[{"forward_us":1,"backward_us":2,"vocab_forward_us":1,"vocab_backward_us":1,)"
      R"("input_forward_us":1,"input_backward_us":1}])";
  const Costs costs =
      parse_costs_json(stage + R"(,"c0_us":5,"c1_us":4,"c2_us":3,"i1_us":2,"i2_us":1})", "c.json", schedule);
  for (std::size_t call = 0; call < kVocabularyCalls; ++call)
    EXPECT_DOUBLE_EQ(costs.vocabulary.all()[call].value, (5 - static_cast<double>(call)) * 1e-6);
  EXPECT_THROW(parse_costs_json(stage + R"(,"c1_us":-4})", "c.json", schedule), InputError);
}

TEST(CostsJson, ReadsAndRefuses) {
  const Schedule schedule = one_f_one_b(2, 4);
  const Costs costs = parse_costs_json(
      R"({"stages":[{"forward_us":100,"backward_input_us":120,"backward_weight_us":80}],"p2p_us":5})",
      "c.json", schedule);
  ASSERT_EQ(costs.stages.size(), 2U);
  EXPECT_DOUBLE_EQ(costs.stages[1].backward.value, 200e-6);
  EXPECT_DOUBLE_EQ(costs.transfer.value, 5e-6);
  for (const BrokenCosts& broken : kBrokenCosts) {
    try {
      parse_costs_json(broken.text, "c.json", schedule);
      ADD_FAILURE() << broken.text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(broken.says)) << broken.text;
    }
  }
}

}  // namespace
}  // namespace plumbline::simulator_test
