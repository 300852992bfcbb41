// The time of actions and of the step's end. On this machine every operator takes one second and collectives
// take only their latency, so that everything can be counted by hand.
#include "analysis/time/action_time.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "analysis/predict/predict.hpp"
#include "analysis/time/action_lanes.hpp"
#include "core/base/error.hpp"
#include "core/config/model_config.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline {
namespace {

constexpr double kHuge = 1e30;

/// An all-gather or reduce-scatter takes `latency`, an all-reduce two of it.
HardwareProfile counting_machine(double latency) {
  HardwareProfile p;
  p.peak_fp32 = p.peak_16bit = {kHuge};
  p.memory_bandwidth = p.link_bandwidth = {kHuge};
  p.launch_overhead = {1};
  p.link_latency = {latency};
  return p;
}

RunConfig with(RunConfig config, int tensor, int data) {
  config.parallel.tensor = tensor;
  config.parallel.world_size = tensor * data;
  config.batch.global_batch_size = std::int64_t{2} * data;
  config.parallel.make_vocab_size_divisible_by = 32 / tensor;
  return config;
}

/// The spans of an action. Their exposed time is that of the action. They follow one another on each group's
/// lane, and none is before or after the action.
void expect_lanes(const std::vector<LaneSpan>& lanes, const ActionTime& time) {
  Seconds tensor, data, all_data;
  std::map<LaneGroup, Seconds> ends;
  std::vector<LaneSpan> ordered = lanes;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const LaneSpan& a, const LaneSpan& b) { return a.start < b.start; });
  for (const LaneSpan& span : ordered) {
    (span.group == Group::data ? data : tensor) += span.waited;
    if (span.group == Group::data) all_data += span.end - span.start;
    EXPECT_GE(span.start.value, ends[span.group].value - 1e-9);
    EXPECT_LE(span.end.value, time.all.value + 1e-9);
    ends[span.group] = span.end;
  }
  EXPECT_NEAR(tensor.value, time.tensor.value, 1e-9);
  EXPECT_NEAR(data.value, (time.gathers + time.scatters).value, 1e-9);
  EXPECT_NEAR(all_data.value, (time.gathered + time.scattered).value, 1e-9);
}

// Operators of tiny_qwen2: embedding 1; layer forward 12 (two norms, four products, two rotations, attention,
// two additions, activation); output layer 5 (norm, product, three of the loss). Backward: output layer 3;
// layer 15 (eight products, attention, two rotations, bias, activation, two norms); embedding 1.
struct Case {
  const char* name;
  ActionType type;
  int tensor;
  bool sequence_parallel;
  Recompute recompute;
  std::int64_t group;
  double operators;
  double latencies;
};
using enum ActionType;
using enum Recompute;
constexpr Case kCases[] = {
    {"F", forward, 1, false, none, 1, 1 + 2 * 12 + 5, 0},
    {"B", backward, 1, false, none, 1, 3 + 2 * 15 + 1, 0},
    {"I", backward_input, 1, false, none, 1, 2 + 2 * 10 + 1, 0},
    {"W", backward_weight, 1, false, none, 1, 1 + 2 * 5, 0},
    {"F as usual when something is recomputed", forward, 1, false, full, 1, 30, 0},
    {"attention again", backward, 1, false, selective, 1, 34 + 2, 0},
    {"attention again in I", backward_input, 1, false, selective, 1, 23 + 2, 0},
    {"layers again, without fc2 and its addition", backward, 1, false, full, 1, 34 + 2 * 10, 0},
    {"a group of two again: only its last stops early", backward, 1, false, full, 2, 34 + 12 + 10, 0},
    {"nothing again in W", backward_weight, 1, false, full, 1, 11, 0},
    // Embedding, two per layer, loss twice; output layer, two per layer.
    {"F, tensor parallel", forward, 2, false, none, 1, 30, 2 * (1 + 4 + 2)},
    {"B, tensor parallel", backward, 2, false, none, 1, 34, 2 * (1 + 4)},
    {"B, layers again in twos", backward, 2, false, full, 2, 34 + 22, 2 * (1 + 4 + 3)},
    // One scatter and 2 + 2 per layer, final norm; loss 2 · 2.
    {"F, sequence parallel", forward, 2, true, none, 1, 30, 1 + 8 + 1 + 4},
    // Output layer 1 + 1, four gathers and two scatters per layer, embedding.
    {"B, sequence parallel", backward, 2, true, none, 1, 34, 2 + 12 + 1},
    {"I, sequence parallel", backward_input, 2, true, none, 1, 23, 1 + 8 + 1},
    {"W, sequence parallel", backward_weight, 2, true, none, 1, 11, 1 + 8},
};

TEST(ActionTime, CountsEveryOperatorAndCollective) {
  constexpr double kLatency = 100;
  const HardwareProfile machine = counting_machine(kLatency);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), c.tensor, 1);
    config.parallel.sequence_parallel = c.sequence_parallel;
    config.recompute.granularity = c.recompute;
    config.recompute.num_layers = c.group;
    const StageShape shape = stage_shapes(config, 1)[0];
    std::vector<LaneSpan> lanes;
    const ActionTime time = time_action(work_of(shape, c.type), machine, {}, {}, &lanes);
    expect_lanes(lanes, time);
    EXPECT_NEAR(time.all.value, c.operators + kLatency * c.latencies, 1e-9);
    EXPECT_NEAR(time.tensor.value, kLatency * c.latencies, 1e-9);
    EXPECT_EQ(time.gathers.value + time.scatters.value, 0);
  }
}

struct OverlapCase {
  const char* name;
  ActionType type;
  int tensor;
  double latency;
  Recompute recompute;
  double all, tensor_seconds;
};
// Products of blocks: t in place of one. A gathering product: t broadcasts on the lane, the own block's
// product at once, then (on tensor rank 0) one block after the other as they arrive. A summing product: the
// reduce of a block during the product of the next, the last one exposed. Without overlap: the lists above.
constexpr OverlapCase kOverlapCases[] = {
    // Per layer 4 more products. Gathers: 2 broadcasts in the 0.4 s of the first product. Sums: 0.2 s shows.
    // Others: embedding, final norm, loss 1 + 1 + 4.
    {"F, everything hidden but the last reduce", forward, 2, 0.2, none, 30 + 8 + 0.2 * (4 + 6),
     0.2 * (4 + 6)},
    // Gathers: 20 s of broadcasts, 1 hidden; sums: 1 of the first 10 s hidden, 10 more.
    {"F, slow collectives", forward, 2, 10, none, 38 + 8 * 19 + 60, 8 * 19 + 60},
    // Four blocks: gathers 40 s, 1 s hidden behind the own block and 2 s behind those between; sums 4 · 10
    // s, 3 s hidden.
    {"F, four tensor ranks", forward, 4, 10, none, 30 + 24 + 4 * (37 + 37) + 60, 4 * 74 + 60},
    // fc2 and projection 1 more product each and a copy, which hides 1 s; fc1 and qkv as without. fc1: gather
    // 10 s behind 1, scatter behind 1 (qkv's bias makes it 2). Output layer 1 + 1, embedding 1.
    {"B, slow collectives", backward, 2, 10, none, 34 + 8 + 2 * (2 * 18 + 9 + 9 + 9 + 8) + 30,
     2 * (2 * 18 + 9 + 9 + 9 + 8) + 30},
    {"B, quick collectives", backward, 2, 0.2, none, 34 + 8 + 0.2 * 3, 0.2 * 3},
    // fc1 and qkv are summed in blocks, too; nothing is copied.
    {"I", backward_input, 2, 10, none, 23 + 8 + 8 * 19 + 20, 8 * 19 + 20},
    {"W: nothing to hide behind", backward_weight, 2, 10, none, 11 + 90, 90},
    // The layer again without fc2: two gathers and a sum.
    {"B, layers again", backward, 2, 10, full, 42 + 2 * (10 + 3) + 2 * (2 * 18 + 35) + 2 * 3 * 19 + 30,
     2 * (2 * 18 + 35) + 2 * 3 * 19 + 30},
};

TEST(ActionTime, CollectivesOfTensorRanksBesideProducts) {
  for (const OverlapCase& c : kOverlapCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), c.tensor, 1);
    config.parallel.sequence_parallel = config.parallel.tp_comm_overlap = true;
    config.recompute.granularity = c.recompute;
    config.model.heads = config.model.kv_heads = 4;
    HardwareProfile machine = counting_machine(c.latency);
    const StageShape shape = stage_shapes(config, 1)[0];
    std::vector<LaneSpan> lanes;
    const ActionTime time = time_action(work_of(shape, c.type), machine, {}, {}, &lanes);
    expect_lanes(lanes, time);
    EXPECT_NEAR(time.all.value, c.all, 1e-9);
    EXPECT_NEAR(time.tensor.value, c.tensor_seconds, 1e-9);
    // On shared processors all of it shows: computation and every collective.
    machine.kind = Calibrated{2};
    const ActionTime shared = time_action(work_of(shape, c.type), machine, {});
    Seconds hidden;
    for (const Alongside& part : time.alongside) hidden += part.all - part.exposed;
    EXPECT_NEAR(shared.all.value, c.all + hidden.value, 1e-9);
  }
}

TEST(ActionTime, SixteenBitSumsAreRounded) {
  RunConfig config = with(sample::tiny_qwen2(), 2, 1);
  config.numerics.precision = DType::bf16;
  const StageShape shape = stage_shapes(config, 1)[0];
  const HardwareProfile machine = counting_machine(0);
  EXPECT_NEAR(time_action(work_of(shape, forward), machine, {}).all.value, 30 + 4, 1e-9);
  EXPECT_NEAR(time_action(work_of(shape, backward), machine, {}).all.value, 34 + 5, 1e-9);
  config.parallel.tp_reduce_in_fp32 = false;
  const StageShape same = stage_shapes(config, 1)[0];
  EXPECT_NEAR(time_action(work_of(same, forward), machine, {}).all.value, 30, 1e-9);
  EXPECT_NEAR(time_action(work_of(same, backward), machine, {}).all.value, 34, 1e-9);
}

TEST(ActionTime, LearnedPositionsAndBiases) {
  const StageShape shape = stage_shapes(with(sample::tiny_gpt2(), 1, 1), 1)[0];
  const HardwareProfile machine = counting_machine(0);
  // No rotations, positions once; the backward has four biases per layer instead of one.
  EXPECT_NEAR(time_action(work_of(shape, forward), machine, {}).all.value, 2 + 2 * 10 + 5, 1e-9);
  EXPECT_NEAR(time_action(work_of(shape, backward), machine, {}).all.value, 3 + 2 * 16 + 2, 1e-9);
  EXPECT_NEAR(time_action(work_of(shape, backward_weight), machine, {}).all.value, 1 + 2 * 8, 1e-9);
}

struct ZeroCase {
  const char* name;
  ActionType type;
  int zero;
  double latency;
  int processors;
  double all, gathers, scatters;
  bool overlap = true;
};
constexpr ZeroCase kZeroCases[] = {
    // Units of F: embedding 1 s, two layers of 12 s, the embedding again as output layer 5 s.
    // The first gather waits; the second overlaps with 1 s of it; the others are hidden.
    {"ZeRO-3 F, quick gathers", forward, 3, 5, 0, 30 + 5 + 4, 9, 0},
    // Gathers are done at 20, 40, 60, 80: layers at 40, 60; output layer at 80.
    {"ZeRO-3 F, slow gathers", forward, 3, 20, 0, 85, 20 + 19 + 8 + 8, 0},
    {"ZeRO-3 F, shared processors: nothing is hidden", forward, 3, 5, 2, 30 + 4 * 5, 20, 0},
    {"ZeRO-2 F gathers nothing", forward, 2, 5, 0, 30, 0, 0},
    // Gradients are cleared (4 times 1 s) and pieces added (4 times 1 s). Output layer done at 3, its scatter
    // until 8; first layer from 4 to 20, +1 for the addition, scatter until 26; second until 37, 38, scatter
    // until 43; embedding until 40, waits until 43, 44, scatter until 49, 50.
    {"ZeRO-2 B", backward, 2, 5, 0, 50, 0, 3 + 5},
    // As above with gathers on the same lane: output layer's at 5, first layer's at 10 (waits 1), second's
    // after the output layer's scatter at 20.
    {"ZeRO-3 B", backward, 3, 5, 0, 56, 6, 8},
    // One lane: gathers until 20, 40, the output layer's scatter until 60, gather until 80, scatter until
    // 100;
    // the last two from 101 to 121 and 122 to 142.
    {"ZeRO-3 B, gathers and scatters behind one another", backward, 3, 20, 0, 143, 20 + 16 + 19,
     4 + 4 + 18 + 20},
    // Four units with nothing alongside; in B also four scatters, cleared gradients and added pieces.
    {"ZeRO-3 F, gathers awaited", forward, 3, 5, 0, 30 + 4 * 5, 20, 0, false},
    {"ZeRO-2 B, scatters awaited", backward, 2, 5, 0, 34 + 4 + 4 + 4 * 5, 0, 20, false},
    {"ZeRO-3 B, all awaited", backward, 3, 5, 0, 34 + 4 + 4 + 3 * 5 + 4 * 5, 15, 20, false},
    {"ZeRO-3 W gathers nothing: 3 scatters", backward_weight, 3, 5, 0, 11 + 3 + 3 + 5, 0, 5},
    {"ZeRO-3 I: three gathers, the embedding's scatter", backward_input, 3, 5, 0, 23 + 2 + 5 + 3 + 5, 8, 5},
};

TEST(ActionTime, GathersAndScattersBesideComputation) {
  for (const ZeroCase& c : kZeroCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), 1, 2);
    config.parallel.zero_stage = c.zero;
    if (!c.overlap) config.parallel.overlap_grad_reduce = config.parallel.overlap_param_gather = false;
    HardwareProfile machine = counting_machine(c.latency);
    machine.kind = Calibrated{c.processors};
    const StageShape shape = stage_shapes(config, 1)[0];
    std::vector<LaneSpan> lanes;
    const ActionTime time = time_action(work_of(shape, c.type), machine, {}, {}, &lanes);
    expect_lanes(lanes, time);
    EXPECT_NEAR(time.all.value, c.all, 1e-9);
    EXPECT_NEAR(time.gathers.value, c.gathers, 1e-9);
    EXPECT_NEAR(time.scatters.value, c.scatters, 1e-9);
  }
}

TEST(ActionTime, OtherActionsAreNoPassesOfAStage) {
  const StageShape shape = stage_shapes(sample::tiny_qwen2(), 1)[0];
  EXPECT_THROW(work_of(shape, optimizer), InputError);
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
    RunConfig config = with(sample::tiny_qwen2(), 1, 2);
    config.parallel.zero_stage = c.zero;
    config.parallel.ddp_bucket_size = c.bucket;
    config.parallel.overlap_grad_reduce = c.reduces;
    config.parallel.overlap_param_gather = c.gathers;
    const StageCosts costs =
        stage_costs(config, sample::one_rank(2), counting_machine(c.latency)).costs.stages.at(0);
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
    RunConfig config = with(sample::tiny_qwen2(), 1, 2);
    config.parallel.zero_stage = c.zero;
    config.parallel.ddp_bucket_size = c.bucket;
    const std::vector<ActionLanes> kinds =
        action_lanes(config, sample::one_rank(2), counting_machine(c.latency));
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

struct SecondaryCase {
  const char* name;
  int secondary_shards;
  bool gathers_ahead;
  double latency, forward, first_forward, backward;
};
// F: units of 1, 12, 12 and 5 seconds. The first one of a step copies three shards in 1 s each. B: 4, 16, 16
// and 2 seconds with clearing, 1 s for each of four sums of scattered pieces; nothing hides the last scatter,
// and only 2 s the one before.
constexpr SecondaryCase kSecondaryCases[] = {
    // F waits until 5, hides 1 of 5, and the rest. Copying the embedding's shard is hidden in that wait.
    {"the first forward copies", 2, true, 5, 5 + 1 + 4 + 12 + 12 + 5, 2, 5 + 1 + 38 + 4 + 3 + 5},
    {"each gather is awaited", 2, false, 5, 4 * 5 + 30, 3, 3 * 5 + 38 + 4 + 3 + 5},
    // F: 20, 40, 60 and 80 for the gathers. B: gathers until 20, 40, 60 and scatters until 44, 77, 98, 119 in
    // parallel.
    {"gathers and scatters on lanes of their own", 2, true, 20, 80 + 5, 0, 120},
    {"on one lane: scatters until 60, 100, 121, 142", 1, true, 20, 80 + 5, 0, 143},
};

TEST(ActionTime, SecondaryShards) {
  for (const SecondaryCase& c : kSecondaryCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), 1, 4);
    config.parallel.zero_stage = 3;
    config.parallel.zero_hpz_partition_size = c.secondary_shards;
    config.parallel.overlap_param_gather = c.gathers_ahead;
    const StageCosts costs =
        stage_costs(config, sample::one_rank(2), counting_machine(c.latency)).costs.stages.at(0);
    EXPECT_NEAR(costs.forward.value, c.forward, 1e-9);
    EXPECT_NEAR(costs.first_forward.value, c.first_forward, 1e-9);
    EXPECT_NEAR(costs.backward.value, c.backward, 1e-9);
  }
}

struct InstancesCase {
  const char* name;
  int zero, instances;
  double latency, backward;
};
// B as above. A reduction takes the latency within the instance, then twice, an all-reduce, between
// instances; each waits for the one before.
constexpr InstancesCase kInstancesCases[] = {
    // Reductions from 4, 21, 38 and 54, the earlier added first, 1 s.
    {"ZeRO 2", 2, 2, 5, 70},
    {"ZeRO 2, one instance", 2, 1, 5, 50},
    {"ZeRO 2, instances of one rank: between them alone", 2, 4, 5, 60},
    // Gathers until 20 and 40; the first scatter until 60, then the third gather until 80, beside the sum
    // between instances until 100. Reductions from 101, 162 and 223.
    {"ZeRO 3: gathers wait for scatters alone", 3, 2, 20, 284},
};

TEST(ActionTime, InstancesOfTheOptimizer) {
  for (const InstancesCase& c : kInstancesCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), 1, 4);
    config.parallel.zero_stage = c.zero;
    config.parallel.num_distributed_optimizer_instances = c.instances;
    const StageCosts costs =
        stage_costs(config, sample::one_rank(2), counting_machine(c.latency)).costs.stages.at(0);
    EXPECT_NEAR(costs.backward.value, c.backward, 1e-9);
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
  RunConfig config = with(sample::tiny_qwen2(), 1, 2);
  config.model = *find_preset("llama-3.1-8b");  // of several buckets
  config.parallel.zero_stage = 1;
  config.machine.software = "megatron-core";  // reduces alongside the backwards, gathers after the update
  HardwareProfile machine = counting_machine(0);
  machine.link_bandwidth = {1e8};
  const auto end = [&] {
    const StageCosts costs = stage_costs(config, sample::one_rank(2), machine).costs.stages.at(0);
    return std::pair(costs.reduce_gradients.value, costs.optimizer.value);
  };
  const auto own = end();
  config.parallel.overlap_grad_reduce = true;
  config.parallel.overlap_param_gather = false;
  EXPECT_EQ(end(), own);
  config.parallel.overlap_grad_reduce = false;
  EXPECT_GT(end().first, own.first);
  EXPECT_EQ(end().second, own.second);
  config.parallel.overlap_param_gather = true;
  EXPECT_LT(end().second, own.second);
}

TEST(StageCosts, MessagesOfAFrameworkAsTheKeySays) {
  RunConfig config = sample::tiny_qwen2();
  config.parallel.pipeline = config.parallel.world_size = 2;
  config.batch.global_batch_size = 4;
  config.machine.software = "megatron-core";
  const Schedule schedule = named("1f1b", 2, 4, false);
  const auto waits = [&] {
    return stage_costs(config, schedule, counting_machine(3)).costs.receive_busy.value > 0;
  };
  EXPECT_TRUE(waits());
  config.parallel.overlap_p2p_comm = true;
  EXPECT_FALSE(waits());
}

TEST(StepEnd, SharedProcessorsHideNothing) {
  RunConfig config = with(sample::tiny_qwen2(), 1, 2);
  config.parallel.zero_stage = 1;
  HardwareProfile machine = counting_machine(5);
  machine.kind = Calibrated{2};
  const StageCosts costs = stage_costs(config, sample::one_rank(2), machine).costs.stages.at(0);
  EXPECT_EQ(costs.last_backward.value, 0);
  EXPECT_NEAR(costs.reduce_gradients.value, 3 * (5 + 1) + 10, 1e-9);
}

TEST(StepEnd, TensorRanksSumSharedVectorsAndHeads) {
  RunConfig config = with(sample::tiny_qwen2(), 2, 1);
  config.parallel.sequence_parallel = true;
  // Rows and biases of keys and values in two layers, replicated vectors, norm: six all-reduces.
  EXPECT_NEAR(
      stage_costs(config, sample::one_rank(2), counting_machine(5)).costs.stages.at(0).optimizer.value,
      3 + 6 * 10, 1e-9);
}

TEST(StageCosts, EveryStageOfEverySchedule) {
  // A middle layer: F 12, B 15, I 10, W 5; embedding 1, 1, 1, 0; output layer 5, 3, 2, 1.
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipev"}) {
    SCOPED_TRACE(name);
    RunConfig config = sample::tiny_qwen2();
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

TEST(Predict, WaitingForReplicasIsExposedDataTime) {
  RunConfig config = with(sample::tiny_qwen2(), 1, 2);
  config.parallel.zero_stage = 3;
  const Prediction p = predict(config, sample::one_rank(2), counting_machine(5));
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
}  // namespace plumbline
