// The time of actions, counted by hand on a machine where every operator takes a second.
#include "analysis/time/action_time.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "analysis/time/action_lanes.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::action_time_test {
namespace {

using namespace sample;

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
    RunConfig config = spread(tiny_qwen2(), c.tensor, 1);
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

TEST(ActionTime, HostBehindLengthensNoCollective) {
  constexpr double kHost = 1e5;
  const HardwareProfile machine = counting_machine(100);
  for (const ActionType type : {forward, backward}) {
    ActionWork work = work_of(stage_shapes(spread(tiny_qwen2(), 2, 1), 1)[0], type);
    work.host.value = kHost;
    std::vector<LaneSpan> lanes;
    const ActionTime time = time_action(work, machine, {}, {}, &lanes);
    EXPECT_NEAR(time.all.value, kHost, 1e-6);
    expect_lanes(lanes, time);
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
    RunConfig config = spread(tiny_qwen2(), c.tensor, 1);
    config.parallel.sequence_parallel = config.parallel.tp.comm_overlap = true;
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

double seconds_of(const RunConfig& config, ActionType type) {
  return time_action(work_of(stage_shapes(config, 1)[0], type), counting_machine(0), {}).all.value;
}

TEST(ActionTime, SixteenBitSumsAreRounded) {
  RunConfig config = spread(tiny_qwen2(), 2, 1);
  config.numerics.precision = DType::bf16;
  EXPECT_NEAR(seconds_of(config, forward), 30 + 4, 1e-9);
  EXPECT_NEAR(seconds_of(config, backward), 34 + 5, 1e-9);
  config.parallel.tp.reduce_in_fp32 = false;
  EXPECT_NEAR(seconds_of(config, forward), 30, 1e-9);
  EXPECT_NEAR(seconds_of(config, backward), 34, 1e-9);
}

TEST(ActionTime, LearnedPositionsAndBiases) {
  const RunConfig config = spread(tiny_gpt2(), 1, 1);
  // No rotations, positions once; the backward has four biases per layer instead of one.
  EXPECT_NEAR(seconds_of(config, forward), 2 + 2 * 10 + 5, 1e-9);
  EXPECT_NEAR(seconds_of(config, backward), 3 + 2 * 16 + 2, 1e-9);
  EXPECT_NEAR(seconds_of(config, backward_weight), 1 + 2 * 8, 1e-9);
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
    RunConfig config = spread(tiny_qwen2(), 1, 2);
    config.parallel.dp.zero_stage = c.zero;
    if (!c.overlap) config.parallel.dp.overlap_grad_reduce = config.parallel.dp.overlap_param_gather = false;
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
  const StageShape shape = stage_shapes(tiny_qwen2(), 1)[0];
  EXPECT_THROW(work_of(shape, optimizer), InputError);
}

StageCosts first_costs(const RunConfig& config, const HardwareProfile& machine) {
  return stage_costs(config, one_rank(2), machine).costs.stages.at(0);
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
    RunConfig config = spread(tiny_qwen2(), 1, 4);
    config.parallel.dp.zero_stage = 3;
    config.parallel.dp.hpz_partition_size = c.secondary_shards;
    config.parallel.dp.overlap_param_gather = c.gathers_ahead;
    const StageCosts costs = first_costs(config, counting_machine(c.latency));
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
    RunConfig config = spread(tiny_qwen2(), 1, 4);
    config.parallel.dp.zero_stage = c.zero;
    config.parallel.dp.optimizer_instances = c.instances;
    const StageCosts costs = first_costs(config, counting_machine(c.latency));
    EXPECT_NEAR(costs.backward.value, c.backward, 1e-9);
  }
}

}  // namespace
}  // namespace plumbline::action_time_test
