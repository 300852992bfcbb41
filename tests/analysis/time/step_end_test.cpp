// The end of the step, the costs of stages, and a whole prediction, counted by hand on a machine where every
// operator takes a second.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/predict/predict.hpp"
#include "analysis/time/action_lanes.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "core/config/model_config.hpp"
#include "schedules/generators.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::step_end_test {
namespace {

using namespace sample;
using enum ActionType;

StageCosts first_costs(const RunConfig& config, const HardwareProfile& machine) {
  return stage_costs(config, one_rank(2), machine).costs.stages.at(0);
}

struct EndCase {
  const char* name;
  int zero;
  double latency;
  std::int64_t bucket;
  double last_backward, reduce_gradients, optimizer;
  std::optional<bool> reduces{}, gathers{};  // the keys
  double first_forward = 0;
};
// The last B computes the gradients of the second layer until 18, of the first until 33, of the embedding
// until 34. OPT: norm, update, clearing; with ZeRO the norm's all-reduce, and three units to gather.
constexpr EndCase kEndCases[] = {
    {"one bucket at ARG, then the vectors", 0, 5, 10'000'000, 0, 10 + 10, 3},
    {"layers 18 to 20 and 33 to 35, the embedding behind them to 37", 0, 1, 500, 0, 3 + 2, 3},
    {"both layers in one bucket: 33 to 43, 53", 0, 5, 600, 0, 19 + 10, 3},
    // Scatters 18 to 23, copy at 33, 34 to 39, copy, 40 to 45, copy.
    {"ZeRO-1", 1, 5, 500, 1 + 5, 6 + 10, 3 + 10 + 3 * 5},
    {"ZeRO-2: only the vectors are left", 2, 5, 500, 0, 10, 3 + 10 + 3 * 5},
    {"ZeRO-3: no values to gather", 3, 5, 500, 0, 10, 3 + 10},
    {"three buckets after the backward", 0, 1, 500, 0, 3 * 2 + 2, 3, false},
    {"ZeRO-1, three units and copies after the backward", 1, 5, 500, 0, 3 * (5 + 1) + 10, 3 + 10 + 3 * 5,
     false},
    {"ZeRO-2, nothing more after the backward", 2, 5, 500, 0, 10, 3 + 10 + 3 * 5, false},
    // The first F waits for the embedding until 5, which hides 1 of the first layer's 5 to 10; the second
    // layer's 10 to 15 is hidden, and the output layer is the embedding.
    {"ZeRO-1, the first forward gathers", 1, 5, 500, 1 + 5, 6 + 10, 3 + 10, {}, true, 5 + 4},
    {"ZeRO-2, the first forward gathers slowly", 2, 20, 500, 0, 40, 3 + 40, {}, true, 20 + 19 + 8},
    {"ZeRO-2, OPT gathers", 2, 20, 500, 0, 40, 3 + 40 + 3 * 20, {}, false, 0},
};

TEST(StepEnd, ReductionsUnderTheLastBackward) {
  for (const EndCase& c : kEndCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = spread(tiny_qwen2(), 1, 2);
    config.parallel.dp.zero_stage = c.zero;
    config.parallel.dp.bucket_size = c.bucket;
    config.parallel.dp.overlap_grad_reduce = c.reduces;
    config.parallel.dp.overlap_param_gather = c.gathers;
    const StageCosts costs = first_costs(config, counting_machine(c.latency));
    EXPECT_NEAR(costs.last_backward.value, c.last_backward, 1e-9);
    EXPECT_NEAR(costs.reduce_gradients.value, c.reduce_gradients, 1e-9);
    EXPECT_NEAR(costs.optimizer.value, c.optimizer, 1e-9);
    EXPECT_NEAR(costs.first_forward.value, c.first_forward, 1e-9);
  }
}

// The same as lanes: seconds before and after the begin of ARG, and the exposed part of each.
TEST(StepEnd, ReductionsHaveLanesFromBeforeARG) {
  struct ReductionCase {
    const char* name;
    int zero;
    double latency;
    std::int64_t bucket;
    std::vector<LaneSpan> lanes;
  };
  const auto data = [](double start, double end, double waited) {
    return LaneSpan{Group::data, {start}, {end}, {waited}};
  };
  const std::vector<ReductionCase> cases = {
      {"two layers and the embedding",
       0,
       1,
       500,
       {data(-16, -14, 0), data(-1, 1, 1), data(1, 3, 2), data(3, 5, 2)}},
      {"both layers in one bucket", 0, 5, 600, {data(-1, 9, 9), data(9, 19, 10), data(19, 29, 10)}},
      // B lasts until 40: it waits from 35 to 39, and copies twice.
      {"ZeRO-1", 1, 5, 500, {data(-22, -17, 0), data(-6, -1, 4), data(0, 5, 5), data(6, 16, 10)}},
      {"ZeRO-2: the vectors", 2, 5, 500, {data(0, 10, 10)}},
  };
  for (const ReductionCase& c : cases) {
    SCOPED_TRACE(c.name);
    RunConfig config = spread(tiny_qwen2(), 1, 2);
    config.parallel.dp.zero_stage = c.zero;
    config.parallel.dp.bucket_size = c.bucket;
    const std::vector<ActionLanes> kinds = action_lanes(config, one_rank(2), counting_machine(c.latency));
    const auto arg = std::find_if(kinds.begin(), kinds.end(),
                                  [](const ActionLanes& kind) { return kind.type == reduce_gradients; });
    ASSERT_NE(arg, kinds.end());
    EXPECT_NEAR(arg->all.value, std::max(0.0, c.lanes.back().end.value), 1e-9);
    ASSERT_EQ(arg->spans.size(), c.lanes.size());
    for (std::size_t i = 0; i < c.lanes.size(); ++i) {
      EXPECT_EQ(arg->spans[i].group, c.lanes[i].group);
      EXPECT_NEAR(arg->spans[i].start.value, c.lanes[i].start.value, 1e-6) << i;
      EXPECT_NEAR(arg->spans[i].end.value, c.lanes[i].end.value, 1e-6) << i;
      EXPECT_NEAR(arg->spans[i].waited.value, c.lanes[i].waited.value, 1e-6) << i;
    }
  }
}

Schedule named(const char* name, int ranks, int microbatches, bool data_parallel) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  const Schedule plain = make_schedule(request);
  return add_step_end(add_transfers(plain), {data_parallel || plain.routes > 1, false});
}

// Overlap is the framework's default unless the configuration sets it.
TEST(StepEnd, KeysReplaceWhatAFrameworkOverlaps) {
  RunConfig config = spread(tiny_qwen2(), 1, 2);
  config.model = *find_preset("llama-3.1-8b");  // of several buckets
  config.parallel.dp.zero_stage = 1;
  config.machine.software = "megatron-core";  // reduces alongside the backwards, gathers after the update
  HardwareProfile machine = counting_machine(0);
  machine.link_bandwidth = {1e8};
  const auto end = [&] {
    const StageCosts costs = first_costs(config, machine);
    return std::pair(costs.reduce_gradients.value, costs.optimizer.value);
  };
  const auto own = end();
  config.parallel.dp.overlap_grad_reduce = true;
  config.parallel.dp.overlap_param_gather = false;
  EXPECT_EQ(end(), own);
  config.parallel.dp.overlap_grad_reduce = false;
  EXPECT_GT(end().first, own.first);
  EXPECT_EQ(end().second, own.second);
  config.parallel.dp.overlap_param_gather = true;
  EXPECT_LT(end().second, own.second);
}

TEST(StageCosts, MessagesOfAFrameworkAsTheKeySays) {
  RunConfig config = tiny_qwen2();
  config.parallel.pipeline = config.parallel.world_size = 2;
  config.batch.global_batch_size = 4;
  config.machine.software = "megatron-core";
  const Schedule schedule = named("1f1b", 2, 4, false);
  const auto waits = [&] {
    return stage_costs(config, schedule, counting_machine(3)).costs.receive_busy.value > 0;
  };
  EXPECT_TRUE(waits());
  config.parallel.pp.overlap_p2p_comm = true;
  EXPECT_FALSE(waits());
}

TEST(StepEnd, SharedProcessorsHideNothing) {
  RunConfig config = spread(tiny_qwen2(), 1, 2);
  config.parallel.dp.zero_stage = 1;
  HardwareProfile machine = counting_machine(5);
  machine.kind = Calibrated{2};
  const StageCosts costs = first_costs(config, machine);
  EXPECT_EQ(costs.last_backward.value, 0);
  EXPECT_NEAR(costs.reduce_gradients.value, 3 * (5 + 1) + 10, 1e-9);
}

TEST(StepEnd, TensorRanksSumSharedVectorsAndHeads) {
  RunConfig config = spread(tiny_qwen2(), 2, 1);
  config.parallel.sequence_parallel = true;
  // Rows and biases of keys and values in two layers, replicated vectors, norm: six all-reduces.
  EXPECT_NEAR(first_costs(config, counting_machine(5)).optimizer.value, 3 + 6 * 10, 1e-9);
}

TEST(StageCosts, EveryStageOfEverySchedule) {
  // A middle layer: F 12, B 15, I 10, W 5; embedding 1, 1, 1, 0; output layer 5, 3, 2, 1.
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipev"}) {
    SCOPED_TRACE(name);
    RunConfig config = tiny_qwen2();
    config.model.layers = 8;
    config.parallel.pipeline = config.parallel.world_size = 2;
    config.batch.global_batch_size = 4;
    const Schedule schedule = named(name, 2, 4, false);
    const StageCostsPrediction predicted = stage_costs(config, schedule, counting_machine(3));
    ASSERT_EQ(predicted.costs.stages.size(), static_cast<std::size_t>(schedule.stages));
    const bool splits =
        std::string_view(name).starts_with("zb") || std::string_view(name).starts_with("dual");
    for (int stage = 0; stage < schedule.stages; ++stage) {
      const StageCosts& costs = predicted.costs.stages[static_cast<std::size_t>(stage)];
      const int layers = 8 / schedule.stages_per_route();
      const int first = schedule.first_of_route(stage) ? 1 : 0;
      const int last = schedule.last_of_route(stage) ? 1 : 0;
      EXPECT_NEAR(costs.forward.value, 12 * layers + first + 5 * last, 1e-9);
      if (splits) {
        EXPECT_NEAR(costs.backward_input.value, 10 * layers + first + 2 * last, 1e-9);
        EXPECT_NEAR(costs.backward_weight.value, 5 * layers + last, 1e-9);
      } else {
        EXPECT_NEAR(costs.backward.value, 15 * layers + first + 3 * last, 1e-9);
        EXPECT_EQ(costs.backward_input.value, 0);
      }
    }
    // Both stages of two routes: eight layers, embedding (also the output layer), vectors of two stages.
    const bool mirrored = schedule.routes == 2;
    EXPECT_NEAR(predicted.costs.stages[0].reduce_gradients.value, mirrored ? 6 * (8 + 1 + 2) : 0, 1e-9);
  }
}

// Stages and ranks of a kind are timed once; each still has lines of its own, which sum to its costs.
TEST(StepEnd, EveryStageOfAKindHasItsCostsAndLines) {
  RunConfig config = spread(tiny_qwen2(), 1, 2);
  config.model.layers = 10;
  config.parallel.pipeline = 5;
  config.parallel.world_size = 10;
  config.parallel.dp.overlap_grad_reduce = false;
  const Schedule schedule = add_step_end(one_f_one_b(5, 8), {.data_parallel = true});
  const StageCostsPrediction predicted = stage_costs(config, schedule, counting_machine(3));
  for (int stage = 0; stage < 5; ++stage) {
    SCOPED_TRACE(stage);
    const auto lines = [&](const char* phase) {
      double seconds = 0;
      for (const CostLine& line : predicted.lines)
        seconds += line.stage == stage && line.phase == phase ? line.seconds.value : 0;
      return seconds;
    };
    const StageCosts& costs = predicted.costs.stages[static_cast<std::size_t>(stage)];
    EXPECT_NEAR(costs.forward.value, 2 * 12 + (stage == 0 ? 1 : stage == 4 ? 5 : 0), 1e-9);
    EXPECT_NEAR(lines("forward"), costs.forward.value, 1e-9);
    EXPECT_NEAR(lines("backward"), costs.backward.value, 1e-9);
    EXPECT_GT(costs.reduce_gradients.value * costs.optimizer.value, 0);
    EXPECT_NEAR(lines("step"), (costs.reduce_gradients + costs.reduce_embedding + costs.optimizer).value,
                1e-9);
  }
}

TEST(Predict, WaitingForReplicasIsExposedDataTime) {
  RunConfig config = spread(tiny_qwen2(), 1, 2);
  config.parallel.dp.zero_stage = 3;
  const Prediction p = predict(config, one_rank(2), counting_machine(5));
  // F 39 and B 56 as above, twice; ARG 10; OPT 13.
  EXPECT_NEAR(p.time.step.value, 2 * (39 + 56) + 10 + 13, 1e-9);
  EXPECT_NEAR(p.time.exposed_data.value, 2 * (9 + 14) + 10, 1e-9);
  EXPECT_NEAR(p.time.compute.value, 2 * (30 + 42), 1e-9);
  EXPECT_NEAR(p.time.optimizer.value, 13, 1e-9);
  EXPECT_NEAR(p.time.bubble_fraction, 0, 1e-12);
  double lines = 0;
  for (const CostLine& line : p.lines) {
    if (line.phase != "step") lines += line.seconds.value;
  }
  EXPECT_NEAR(lines, 39 + 56, 1e-9);
}

}  // namespace
}  // namespace plumbline::step_end_test
