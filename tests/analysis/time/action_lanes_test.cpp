// Placement of a simulated step's collectives: every kind of action's on each of its events.
#include "analysis/time/action_lanes.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/time/lane_sums.hpp"
#include "schedules/make_schedule.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::action_lanes_test {
namespace {

/// Exposed and total time of a group's collectives on a rank.
struct Sums {
  Seconds waited;
  Seconds all;
};
Sums sums_of(const std::vector<LaneSpan>& lanes, Group group) {
  Sums sums;
  for (const LaneSpan& span : lanes) {
    if (span.group != group) continue;
    sums.waited += span.waited;
    sums.all += span.end - span.start;
  }
  return sums;
}

struct Case {
  const char* name;
  int tensor;
  int data;
  int zero;
  bool overlap;  // of the tensor group
  int processors;
};
constexpr Case kCases[] = {
    {"tensor ranks", 2, 1, 0, false, 0},        {"tensor ranks, products in pieces", 2, 1, 0, true, 0},
    {"gathered parameters", 1, 2, 3, false, 0}, {"scattered gradients", 1, 2, 2, false, 0},
    {"both groups", 2, 2, 3, true, 0},          {"on shared processors", 2, 1, 0, false, 1},
};

// Exposed time on the lanes of all events equals the step's figures.
TEST(ActionLanes, OfAStepHaveWhatItsFiguresHave) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = sample::tiny_qwen2();
    config.model.heads = config.model.kv_heads = 4;
    config.parallel.tensor = c.tensor;
    config.parallel.world_size = c.tensor * c.data;
    config.parallel.dp.zero_stage = c.zero;
    config.parallel.sequence_parallel = c.tensor > 1;
    config.parallel.tp.comm_overlap = c.overlap;
    config.parallel.make_vocab_size_divisible_by = 32 / c.tensor;
    config.batch.global_batch_size = std::int64_t{3} * c.data;
    HardwareProfile machine = sample::counting_machine(5);
    machine.kind = Calibrated{c.processors};
    ScheduleRequest request;
    request.name = "1f1b";
    request.microbatches = 3;
    const Schedule schedule = make_schedule(request);
    const Prediction prediction = predict(config, schedule, machine);
    const Trace trace = simulate(schedule, prediction.costs);
    const std::vector<ActionLanes> kinds = action_lanes(config, schedule, machine);
    const auto lanes = lanes_of(schedule, trace, kinds, c.processors > 0, 1e30);
    ASSERT_EQ(lanes.size(), 1U);
    const Sums tensor = sums_of(lanes[0], Group::tensor);
    const Sums data = sums_of(lanes[0], Group::data);
    EXPECT_EQ(tensor.all.value > 0, c.tensor > 1);
    EXPECT_EQ(data.all.value > 0, c.data > 1);
    EXPECT_EQ(tensor.waited < tensor.all, c.overlap);
    EXPECT_EQ(data.waited<data.all, c.data> 1);
    const double step = trace.makespan().value;
    EXPECT_NEAR(tensor.waited / Seconds{step}, prediction.time.exposed_tensor.value / step, 1e-6);
    EXPECT_NEAR(data.waited / Seconds{step}, prediction.time.exposed_data.value / step, 1e-6);
    for (const LaneSpan& span : lanes[0]) {
      EXPECT_GE(span.start.value, 0);
      EXPECT_LE(span.end.value, step * (1 + 1e-6));
      EXPECT_LE(span.waited.value, (span.end - span.start).value * (1 + 1e-6));
    }
    if (c.processors > 0) continue;  // there an action lasts longer than its kind
    const LaneSums added = lane_sums(schedule, kinds);
    for (const auto& [group, sums] : {std::pair(Group::tensor, tensor), std::pair(Group::data, data)}) {
      EXPECT_NEAR(added[place_of(group)].time.value, sums.all.value, 1e-9 * step);
      EXPECT_NEAR(added[place_of(group)].exposed.value, sums.waited.value, 1e-9 * step);
    }
  }
}

// Two ranks; a pair counts as one, of the first forwards of a stage one, and a period once per repetition.
TEST(ActionLanes, AddUpOverARepeatedStep) {
  using enum ActionType;
  RepeatedSchedule step;
  step.once.ranks = 2;
  const Action f{forward, false, 0, 0}, b{backward, false, 0, 0}, end{optimizer, false, 0, 0};
  Action paired = f;
  paired.overlaps_next = true;
  step.once.actions = {{f, f, paired, b, b, end}, {f}};
  step.periods = {{2, 2}, {0, 1}};
  step.copies = 10;
  const std::vector<ActionLanes> kinds = {
      {forward, 0, {}, false, {}, {{Group::tensor, {0}, {1}, {0.5}}}},
      {forward, 0, {}, true, {}, {{Group::tensor, {0}, {100}, {50}}}},
      {backward, 0, {}, false, {}, {{Group::data, {0}, {2}, {1}}}},
      {forward, 0, b, false, {}, {{Group::expert, {0}, {4}, {2}}}},
      {optimizer, 0, {}, false, {}, {{std::nullopt, {0}, {8}, {8}}}},
  };
  const LaneSums sums = lane_sums(step, kinds);
  const auto expect = [&](LaneGroup lane, double time, double exposed) {
    EXPECT_NEAR(sums[place_of(lane)].time.value, time / 2, 1e-9) << lane_name(lane);
    EXPECT_NEAR(sums[place_of(lane)].exposed.value, exposed / 2, 1e-9) << lane_name(lane);
  };
  expect(Group::tensor, 100 + 1 + 100 + 9, 50 + 0.5 + 50 + 4.5);
  expect(Group::data, 2, 1);
  expect(Group::expert, 40, 20);
  expect(std::nullopt, 8, 8);
}

Event event(ActionType type, double start, double end) {
  return {{type, false, 0, 0}, {start}, {end}};
}

// Three seconds of a forward with a gather in its first and of a backward with one in its second, a second of
// OPT with a sum in its last half.
TEST(ActionLanes, ArePlacedOnEvents) {
  using enum ActionType;
  Schedule schedule;
  schedule.ranks = schedule.stages = 1;
  schedule.rank_of_stage = {0};
  const Action f{forward, false, 0, 0}, b{backward, false, 0, 0}, end{optimizer, false, 0, 0};
  Action paired = f;
  paired.overlaps_next = true;
  const std::vector<ActionLanes> single = {
      {forward, 0, {}, false, {3}, {{Group::tensor, {0}, {1}, {1}}}},
      {forward, 0, {}, true, {4}, {{Group::data, {0}, {2}, {1}}}},
      {backward, 0, {}, false, {3}, {{Group::tensor, {1}, {2}, {0}}}},
      {optimizer, 0, {}, false, {1}, {{Group::world, {0.5}, {1}, {0.5}}}},
  };
  std::vector<ActionLanes> with_pair = single;
  with_pair.push_back({forward, 0, b, false, {5}, {{Group::expert, {2}, {4}, {0.5}}}});
  struct Place {
    const char* name;
    std::vector<Action> actions;
    std::vector<Event> events;
    const std::vector<ActionLanes>& kinds;
    bool stretched;
    std::vector<double> starts, waited;
  };
  const Place places[] = {
      {"one after the other; the first F has more",
       {f, b, f},
       {event(forward, 0, 4), event(backward, 4, 7), event(forward, 8, 11)},
       single,
       false,
       {0, 5, 8},
       {1, 0, 1}},
      {"a receive has none",
       {{receive_forward, false, 0, 0}},
       {event(receive_forward, 0, 1)},
       single,
       false,
       {},
       {}},
      {"twice as long", {f, b}, {event(forward, 0, 4), event(backward, 4, 10)}, single, true, {0, 6}, {1, 0}},
      {"the step's end waits first", {end}, {event(optimizer, 2, 5)}, single, false, {4.5}, {0.5}},
      {"a pair has its own",
       {f, paired, b},
       {event(forward, 0, 4), event(forward, 4, 9), event(backward, 4, 9)},
       with_pair,
       false,
       {0, 6},
       {1, 0.5}},
      {"without, one action after the other",
       {f, paired, b},
       {event(forward, 0, 4), event(forward, 4, 10), event(backward, 4, 10)},
       single,
       false,
       {0, 4, 8},
       {1, 1, 0}},
  };
  for (const Place& place : places) {
    SCOPED_TRACE(place.name);
    schedule.actions = {place.actions};
    Trace trace;
    trace.ranks = {place.events};
    const auto lanes = lanes_of(schedule, trace, place.kinds, place.stretched);
    ASSERT_EQ(lanes.size(), 1U);
    ASSERT_EQ(lanes[0].size(), place.starts.size());
    for (std::size_t i = 0; i < lanes[0].size(); ++i) {
      EXPECT_NEAR(lanes[0][i].start.value, place.starts[i], 1e-9);
      EXPECT_NEAR(lanes[0][i].waited.value, place.waited[i], 1e-9);
    }
  }
}

// Ten thousand forwards with two collectives each become as many spans as a lane has pieces, with the same
// exposed time.
TEST(ActionLanes, OfALongStepAreFew) {
  Schedule schedule;
  schedule.ranks = schedule.stages = 1;
  Trace trace;
  trace.ranks.emplace_back();
  schedule.actions.emplace_back();
  constexpr int kActions = 10'000;
  for (int i = 0; i < kActions; ++i) {
    trace.ranks[0].push_back(event(ActionType::forward, i, i + 1));
    schedule.actions[0].push_back(trace.ranks[0].back().action);
  }
  const std::vector<ActionLanes> kinds = {{ActionType::forward,
                                           0,
                                           {},
                                           false,
                                           {1},
                                           {{Group::tensor, {0}, {0.25}, {0.125}},
                                            {Group::data, {0.25}, {1}, {}},
                                            {Group::tensor, {0.5}, {0.75}, {0}}}}};
  const auto lanes = lanes_of(schedule, trace, kinds, false);
  EXPECT_LE(static_cast<double>(lanes[0].size()), 2 * (2 * kLanePieces + 1));
  EXPECT_GT(static_cast<double>(lanes[0].size()), kLanePieces);
  EXPECT_NEAR(sums_of(lanes[0], Group::tensor).waited.value, 0.125 * kActions, 1e-6);
  EXPECT_EQ(sums_of(lanes[0], Group::data).waited.value, 0);
}

}  // namespace
}  // namespace plumbline::action_lanes_test
