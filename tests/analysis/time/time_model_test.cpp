// FLOPs against closed forms, the time model's sanity, and a whole prediction.
#include "analysis/time/stage/time_model.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/predict/predict.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "core/config/model_config.hpp"
#include "schedules/generators.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline {
namespace {

TEST(Flops, ModelFlopsPerToken) {
  ModelConfig m = sample::tiny_qwen2().model;
  // Layer: qkv 8·16, projection 64, fc1 8·32, fc2 128 = 576; output 8·32.
  EXPECT_EQ(matmul_parameters(m), 2 * 576 + 256);
  EXPECT_DOUBLE_EQ(model_flops_per_token(m, 4).value, 6 * (2 * 576 + 256) + 6 * 2 * 8 * 4);
  // GPT-3 175B: 6·N within 3 % at s = 2048 (Narayanan et al. 2021 print 1 + s/6h + v/16Lh around 1).
  const ModelConfig* gpt3 = find_preset("gpt3-175b");
  if (gpt3 != nullptr) {
    EXPECT_NEAR(model_flops_per_token(*gpt3, 2048).value / (6 * 175e9), 1, 0.03);
  }
}

TEST(Flops, StageCallsAddUpToTheModel) {
  for (const bool gpt2 : {false, true}) {
    const RunConfig config = gpt2 ? sample::tiny_gpt2() : sample::tiny_qwen2();
    const auto tokens = static_cast<double>(config.batch.seq_length * config.batch.micro_batch_size);
    for (const int stages : {1, 2}) {
      double executed = 0;
      for (const StageShape& shape : stage_shapes(config, stages)) {
        const StageFlops flops = stage_flops(shape);
        executed += flops.forward.value + flops.backward.value;
      }
      // Hardware FLOPs have the scores once more: 2.5 instead of 2 times the forward of attention.
      const double scores = 0.5 * 2 * tokens * tokens * 8 * 2;
      EXPECT_DOUBLE_EQ(executed - scores,
                       model_flops_per_token(config.model, config.batch.seq_length).value * tokens);
    }
  }
}

struct ExecutedCase {
  const char* name;
  Recompute recompute;
  std::int64_t group;
  int stages;
  double again;  // FLOPs of one micro-batch beyond a plain B
};
// Four tokens: a layer's products forward are 2·4·576 without fc2's 2·4·128, attention 2·4·4·4·2.
constexpr double kScores = 2 * 4 * 4 * 4 * 2;
constexpr double kLayer = 2 * 4 * 576 + kScores;
constexpr double kWithoutFc2 = kLayer - 2 * 4 * 128;
constexpr ExecutedCase kExecutedCases[] = {
    {"selective: attention", Recompute::selective, 1, 1, 2 * kScores},
    {"full, layer by layer", Recompute::full, 1, 1, 2 * kWithoutFc2},
    {"full, both layers at once", Recompute::full, 2, 1, kLayer + kWithoutFc2},
    {"full, groups end with the stage", Recompute::full, 2, 2, 2 * kWithoutFc2},
};

TEST(Flops, ExecutedWithRecomputation) {
  RunConfig config = sample::tiny_qwen2();
  const double plain = executed_flops_per_token(config, 1).value * 4;
  EXPECT_DOUBLE_EQ(plain, model_flops_per_token(config.model, 4).value * 4 + 0.5 * 2 * kScores);
  for (const ExecutedCase& c : kExecutedCases) {
    SCOPED_TRACE(c.name);
    config.recompute.granularity = c.recompute;
    config.recompute.num_layers = c.group;
    EXPECT_DOUBLE_EQ(executed_flops_per_token(config, c.stages).value * 4, plain + c.again);
    const Throughput throughput =
        throughput_of(config, *find_hardware_preset("a100-sxm-80gb"), {1}, c.stages);
    EXPECT_DOUBLE_EQ(throughput.hfu / throughput.mfu,
                     (plain + c.again) / (model_flops_per_token(config.model, 4).value * 4));
  }
}

TEST(Flops, ATeacherAddsItsForward) {
  RunConfig config = sample::tiny_qwen2();
  const double model = model_flops_per_token(config).value;
  const double executed = executed_flops_per_token(config, 1).value;
  EXPECT_DOUBLE_EQ(model, model_flops_per_token(config.model, 4).value);
  config.recompute.granularity = Recompute::full;  // of the student only
  const double again = executed_flops_per_token(config, 1).value - executed;
  config.distillation.teacher = config.model;
  config.distillation.teacher->layers = 4;
  const double forward = model_flops_per_token(*config.distillation.teacher, 4).value / 3;
  EXPECT_DOUBLE_EQ(model_flops_per_token(config).value, model + forward);
  EXPECT_DOUBLE_EQ(executed_flops_per_token(config, 2).value, executed + again + forward);
}

TEST(Flops, SplitBackwardIsTheWhole) {
  RunConfig config = sample::tiny_gpt2();
  config.recompute.granularity = Recompute::full;
  const StageShape shape = stage_shapes(config, 1)[0];
  Flops parts;
  for (const OperatorCall& call : backward_input_calls(shape)) parts += flops_of(call);
  for (const OperatorCall& call : backward_weight_calls(shape)) parts += flops_of(call);
  EXPECT_DOUBLE_EQ(parts.value, stage_flops(shape).backward.value);
}

TEST(Flops, TensorRanksShareTheWork) {
  RunConfig config = sample::tiny_gpt2();
  const double whole = stage_flops(stage_shapes(config, 1)[0]).forward.value;
  config.parallel.tensor = 2;
  config.parallel.world_size = 2;
  config.parallel.make_vocab_size_divisible_by = 16;
  EXPECT_DOUBLE_EQ(stage_flops(stage_shapes(config, 1)[0]).forward.value * 2, whole);
}

const HardwareProfile& a100() {
  return *find_hardware_preset("a100-sxm-80gb");
}

RunConfig real_model() {
  RunConfig config = sample::tiny_qwen2();
  config.model.layers = 8;
  config.model.hidden = 2048;
  config.model.heads = 16;
  config.model.kv_heads = 8;
  config.model.head_dim = 128;
  config.model.ffn = 8192;
  config.model.vocab = 32000;
  config.batch.seq_length = 2048;
  config.numerics.precision = DType::bf16;
  config.parallel.make_vocab_size_divisible_by = 128;
  return config;
}

Costs costs_of(const RunConfig& config, const HardwareProfile& hardware) {
  return stage_costs(config, sample::one_rank(config.microbatches()), hardware).costs;
}

TEST(TimeModel, MoreWorkTakesLonger) {
  const RunConfig base = real_model();
  const double forward = costs_of(base, a100()).stages[0].forward.value;
  EXPECT_GT(forward, 0);
  struct Case {
    const char* name;
    void (*change)(RunConfig&);
  };
  const Case kCases[] = {
      {"longer sequence", [](RunConfig& c) { c.batch.seq_length *= 2; }},
      {"larger micro-batch", [](RunConfig& c) { c.batch.micro_batch_size *= 2; }},
      {"more layers", [](RunConfig& c) { c.model.layers += 1; }},
      {"wider feed-forward", [](RunConfig& c) { c.model.ffn += 512; }},
      {"larger vocabulary", [](RunConfig& c) { c.model.vocab *= 2; }},
      {"fp32", [](RunConfig& c) { c.numerics.precision = DType::fp32; }},
  };
  for (const Case& c : kCases) {
    RunConfig config = base;
    c.change(config);
    const Costs costs = costs_of(config, a100());
    EXPECT_GT(costs.stages[0].forward.value, forward) << c.name;
    EXPECT_GT(costs.stages[0].backward.value, 1.8 * costs.stages[0].forward.value) << c.name;
  }
}

TEST(TimeModel, FasterMachinesAreFaster) {
  const RunConfig config = real_model();
  double before = 1e9;
  for (const char* name : {"v100-sxm-32gb", "a100-sxm-80gb", "h100-sxm-80gb"}) {
    const double now = costs_of(config, *find_hardware_preset(name)).stages[0].backward.value;
    EXPECT_LT(now, before) << name;
    before = now;
  }
}

/// A profile with one table: every forward GEMM takes 1 s alone and 2 s busy, or 10 times that when the
/// working set is large.
HardwareProfile table_machine() {
  HardwareProfile p = a100();
  p.kind = Calibrated{2};
  for (std::vector<OperatorTimes>* list : {&p.alone, &p.busy}) {
    for (const std::int64_t mib : {1, 100}) {
      OperatorTimes& times = list->emplace_back();
      times.working_set = kMiB * mib;
      const double seconds = (list == &p.busy ? 2.0 : 1.0) * (mib == 1 ? 1 : 10);
      times.gemm["forward.bf16"] = {{1, 1e9}, {16}, {16}, {seconds, seconds}};
    }
  }
  return p;
}

TEST(TimeModel, MixesTables) {
  const HardwareProfile p = table_machine();
  OperatorCall call{.work = GemmCall{.tokens = 100, .out = 16, .in = 16}};
  struct Case {
    const char* name;
    double busy;
    Bytes working_set;
    double seconds;
  };
  const Case kCases[] = {
      {"alone, small", 0, kMiB, 1},
      {"busy, small", 1, kMiB, 2},
      {"half busy", 0.5, kMiB, 1.5},
      {"between working sets: half of the uses come from either", 0, kMiB * 10, 5.5},
      {"beyond the largest", 0, kMiB * 1000, 10},
      {"below the smallest", 0, kKiB, 1},
  };
  for (const Case& c : kCases) {
    Load load;
    load.busy = c.busy;
    load.operands = {.apart = c.working_set};
    EXPECT_NEAR(time_of(call, p, load).value, c.seconds, 1e-9) << c.name;
  }
}

TEST(TimeModel, LoadOfAMachine) {
  struct Case {
    int tensor, pipeline, world, processors;
    double busy, sharing;
  };
  constexpr Case kCases[] = {
      {1, 1, 1, 2, 0, 1},      // alone on two cores
      {2, 1, 2, 2, 1, 1},      // both busy all the time
      {1, 2, 2, 2, 0.875, 1},  // 1 - 1/8 of the time
      {4, 1, 4, 2, 1, 2},      // two ranks per core
      {8, 1, 8, 0, 0, 1},      // GPUs share nothing
  };
  for (const Case& c : kCases) {
    RunConfig config = sample::tiny_gpt2();
    config.parallel.tensor = c.tensor;
    config.parallel.pipeline = c.pipeline;
    config.parallel.world_size = c.world;
    config.batch.global_batch_size = 8;
    HardwareProfile hardware = a100();
    hardware.kind = Calibrated{c.processors};
    const Load load =
        load_of(config, one_f_one_b(c.pipeline, config.microbatches()), hardware, software_of(config));
    EXPECT_DOUBLE_EQ(load.busy, c.busy) << c.tensor << c.pipeline;
    EXPECT_DOUBLE_EQ(load.sharing, c.sharing) << c.tensor << c.pipeline;
  }
}

// The processor computes sixteen columns at a time, the last of a row too when they are fewer.
TEST(OperatorTime, ProductsCountInWholeVectors) {
  HardwareProfile profile;
  profile.alone.resize(1);
  profile.alone[0].working_set = kMiB;
  profile.alone[0].gemm["forward.fp32"] = {{64}, {16, 256}, {16, 256}, {1e-6, 2e-6, 4e-6, 8e-6}};
  OperatorCall call{.work = GemmCall{.tokens = 64}, .type = DType::fp32};
  struct Case {
    std::int64_t out, in;
    double seconds;
  };
  for (const Case& c :
       {Case{256, 256, 8e-6}, {252, 241, 8e-6}, {250, 16, 4e-6}, {3, 255, 2e-6}, {512, 500, 32e-6}}) {
    call.get<GemmCall>().out = c.out;
    call.get<GemmCall>().in = c.in;
    EXPECT_NEAR(time_of(call, profile, Load{}).value, c.seconds, 1e-15) << c.out << "x" << c.in;
  }
}

TEST(OperatorTime, QueryHeadsBeyondTheMeasuredGroupTakeAsLongEach) {
  HardwareProfile hardware;
  hardware.alone.emplace_back();
  hardware.alone[0].attention["forward.fp32"] = {{64}, {64}, {1, 4}, {1e-5, 8e-6}};
  OperatorCall call{.work = AttentionCall{.queries = 64, .head_dim = 64, .heads = 14}, .type = DType::fp32};
  for (const auto& [group, each] : {std::pair{1, 1e-5}, {4, 8e-6}, {7, 8e-6}, {32, 8e-6}}) {
    call.get<AttentionCall>().group = group;
    EXPECT_NEAR(time_of(call, hardware, Load{}).value, 14 * each, 1e-12) << group;
  }
}

// 128 queries at a time see the keys up to their own: 36 blocks of pairs at 1024 tokens, 136 at 2048.
TEST(OperatorTime, AttentionGrowsWithThePairsOfTokens) {
  HardwareProfile profile;
  profile.alone.resize(1);
  profile.alone[0].working_set = kMiB;
  profile.alone[0].attention["forward.fp32"] = {{512, 1024}, {64}, {1}, {1e-3, 4e-3}};
  OperatorCall call{.work = AttentionCall{.head_dim = 64, .group = 1, .heads = 1}, .type = DType::fp32};
  const auto seconds = [&](std::int64_t tokens) {
    call.get<AttentionCall>().queries = tokens;
    return time_of(call, profile, {}).value;
  };
  EXPECT_NEAR(seconds(1024), 4e-3, 1e-12);
  EXPECT_NEAR(seconds(2048), 4e-3 * 136 / 36, 1e-12);
  EXPECT_NEAR(seconds(256), 1e-3, 1e-12) << "below the shortest as that one";
}

TEST(TimeModel, CollectivesOfACutVocabularyHoldProcessorsOfAnAccelerator) {
  const HardwareProfile accelerator = load_hardware("a100-sxm-80gb");
  RunConfig config = sample::tiny_gpt2();
  EXPECT_EQ(collective_contention(config, accelerator, software_of(config)), 1);
  config.parallel.vocab_parallel = VocabPasses::two_barriers;
  EXPECT_EQ(collective_contention(config, HardwareProfile{}, software_of(config)), 1)
      << "a machine that was measured";
  const double passes = collective_contention(config, accelerator, software_of(config));
  config.parallel.vocab_parallel = VocabPasses::interlaced;
  EXPECT_GT(collective_contention(config, accelerator, software_of(config)), 1);
  EXPECT_GT(passes, collective_contention(config, accelerator, software_of(config)));
  OperatorCall call{.work = GemmCall{.tokens = 1024, .out = 1024, .in = 1024}};
  Load load;
  const double alone = time_of(call, accelerator, load).value;
  load.collective_contention = passes;
  EXPECT_DOUBLE_EQ(time_of(call, accelerator, load).value, alone * passes);
}

OperatorCall collective(CallKind kind, Group group, int ranks, DType type, std::int64_t bytes) {
  return CallList::collective_call(kind, "", group, ranks, bytes / size_of(type), type);
}

TEST(TimeModel, CollectivesTakeTheNearestMeasurement) {
  HardwareProfile p = a100();
  p.collectives.push_back({2, 2, DType::fp32, false, {{100}, {1}}});
  p.collectives.push_back({2, 8, DType::fp32, false, {{100}, {2}}});
  p.collectives.push_back({4, 4, DType::fp32, false, {{100}, {3}}});
  p.collectives.push_back({4, 4, DType::bf16, false, {{100}, {4}}});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {5}}});
  struct Measured {
    const char* name;
    CallKind kind;
    int world, ranks;
    DType type;
    std::int64_t bytes;
    bool started;
    double seconds;
  };
  using enum CallKind;
  constexpr Measured kCases[] = {
      {"exact", all_reduce, 2, 2, DType::fp32, 100, false, 1},
      {"begun early", all_reduce, 2, 2, DType::fp32, 100, true, 5},
      {"none begun early", all_reduce, 4, 4, DType::fp32, 100, true, 3},
      {"larger world", all_reduce, 16, 2, DType::fp32, 100, false, 2},
      {"group before world", all_reduce, 8, 4, DType::fp32, 100, false, 3},
      {"beyond the table", all_reduce, 8, 8, DType::bf16, 200, false, 8},
      {"alone", all_reduce, 8, 1, DType::fp32, 100, false, 0},
      {"a gather is half", all_gather, 2, 2, DType::fp32, 100, false, 0.5},
      {"a scatter is half", reduce_scatter, 2, 2, DType::fp32, 100, false, 0.5},
      {"gather alone", all_gather, 2, 1, DType::fp32, 100, false, 0},
  };
  for (const Measured& c : kCases) {
    const OperatorCall call = collective(c.kind, Group::tensor, c.ranks, c.type, c.bytes);
    EXPECT_DOUBLE_EQ(collective_time(call, p, {c.world, 1, 1}, c.started).value, c.seconds) << c.name;
  }
}

TEST(TimeModel, AGatherAndAScatterOfTheirOwnAreTaken) {
  HardwareProfile p = a100();
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {8}}});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {1}}, CollectiveKind::all_gather});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {7}}, CollectiveKind::reduce_scatter});
  for (const auto& [kind, seconds] :
       {std::pair{CallKind::all_reduce, 8.0}, std::pair{CallKind::all_gather, 1.0},
        std::pair{CallKind::reduce_scatter, 7.0}}) {
    const OperatorCall call = collective(kind, Group::data, 2, DType::fp32, 100);
    EXPECT_DOUBLE_EQ(collective_time(call, p, {1, 1, 2}, true).value, seconds) << static_cast<int>(kind);
  }
}

TEST(TimeModel, TheLastVectorOfARowTakesAsLongAsAFullOne) {
  HardwareProfile p;
  p.kind = Calibrated{1};
  p.peak_fp32 = p.peak_16bit = {1e9};
  p.memory_bandwidth = p.link_bandwidth = {1e9};
  OperatorTimes times;
  // A microsecond per 1024 elements of wide rows, twice that of rows of 16.
  const Grid rows{{1 << 10, 1 << 20}, {16, 128}, {1}, {2e-6, 1e-6, 2048e-6, 1024e-6}};
  times.by_row["rmsnorm_forward.fp32"] = rows;
  times.by_row["rope.fp32"] = rows;
  p.alone = {times};
  struct Row {
    const char* name;
    std::int64_t width, as_width;
  };
  constexpr Row kRows[] = {{"rmsnorm_forward", 128, 128},
                           {"rmsnorm_forward", 113, 128},
                           {"rmsnorm_forward", 24, 32},
                           {"rmsnorm_forward", 129, 144},
                           {"rmsnorm_forward", 3, 16},
                           {"rope", 16, 16},
                           {"rope", 18, 16},
                           {"rope", 48, 64},
                           {"rope", 64, 64}};
  for (const Row& row : kRows) {
    const auto rows_of = [&](std::int64_t width) {
      OperatorCall same = CallList::memory_call(row.name, 4096 * width, 8, DType::fp32);
      same.get<StreamCall>().width = width;
      return same;
    };
    const OperatorCall call = rows_of(row.width);
    const OperatorCall whole = rows_of(row.as_width);
    EXPECT_NEAR(time_of(call, p, {}) / time_of(whole, p, {}), 1, 1e-12) << row.name << " " << row.width;
  }
  p.alone[0].attention["forward.fp32"] = {{64}, {8, 128}, {1}, {1e-6, 16e-6}};
  for (const auto& [head_dim, as] :
       {std::pair{8, 8}, std::pair{12, 12}, std::pair{20, 32}, std::pair{64, 64}}) {
    const OperatorCall attention{
        .work = AttentionCall{.queries = 64, .head_dim = head_dim, .group = 1, .heads = 1},
        .type = DType::fp32};
    EXPECT_NEAR(time_of(attention, p, {}).value, as / 8.0 * 1e-6, 1e-12) << head_dim;
  }
}

TEST(TimeModel, WithoutMeasurementsOrAcceleratorALinkIsARing) {
  HardwareProfile p;
  p.link_latency.value = 1;
  p.link_bandwidth.value = 100;
  const auto time = [&](CallKind kind) {
    return collective_time(collective(kind, Group::tensor, 4, DType::fp32, 400), p, {4, 1, 1}).value;
  };
  EXPECT_DOUBLE_EQ(time(CallKind::all_reduce), 2 + 2 * 0.75 * 4);
  EXPECT_DOUBLE_EQ(time(CallKind::all_gather), 1 + 0.75 * 4);
  EXPECT_DOUBLE_EQ(message_time(p, 2, {400}).value, 5);
  EXPECT_EQ(pipeline_ranks_per_node(p, {4, 64, 1}), 0);
}

TEST(TimeModel, GroupsMeetTheTierTheySpan) {
  const Network net = a100().accelerator()->constants.network;
  ASSERT_EQ(net.gpus_per_node, 8);
  constexpr std::int64_t kBytes = 1'000'000'000;
  const double inside = 1.0 / net.node_bandwidth;  // seconds per byte of bus traffic
  const double one_card = 1.0 / net.nic_bandwidth;
  struct Placed {
    const char* name;
    Layout layout;
    Group group;
    int ranks;
    double per_byte;
  };
  const Placed kCases[] = {
      {"tensor in a node", {8, 8, 2}, Group::tensor, 8, inside},
      {"data in a node", {1, 4, 8}, Group::data, 8, inside},
      {"data over nodes, a card each", {8, 1, 4}, Group::data, 4, one_card},
      {"data, two ranks of a group per node", {4, 1, 4}, Group::data, 4, one_card / 2},
      {"secondary shards in a node", {1, 1, 32, 1, false, 1, 1, 1, 0, 8}, Group::zero_param, 8, inside},
      {"secondary shards, half of a group per node",
       {2, 1, 32, 1, false, 1, 1, 1, 0, 8},
       Group::zero_param,
       8,
       one_card / 4},
      {"an instance in a node", {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 8}, Group::optimizer_instance, 8, inside},
      {"between instances, a card each",
       {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 8},
       Group::between_instances,
       4,
       one_card},
      {"between instances, two ranks of a group per node",
       {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 4},
       Group::between_instances,
       8,
       one_card / 2},
      {"pipeline in a node", {2, 4, 1}, Group::pipeline, 4, inside},
      {"pipeline over nodes", {8, 4, 1}, Group::pipeline, 4, one_card},
      {"embedding in a node", {1, 4, 1}, Group::embedding, 2, inside},
      {"embedding over nodes", {4, 4, 1}, Group::embedding, 2, one_card},
      {"mirror over nodes", {4, 4, 1}, Group::mirror, 2, one_card},
      {"model in a node", {4, 2, 1}, Group::model, 8, inside},
      {"world over nodes", {8, 2, 1}, Group::world, 16, one_card / 8},
  };
  for (const Placed& c : kCases) {
    const double n = c.ranks;
    const auto time = [&](CallKind kind) {
      return collective_time(collective(kind, c.group, c.ranks, DType::bf16, kBytes), a100(), c.layout).value;
    };
    EXPECT_NEAR(time(CallKind::all_reduce) / (2 * (n - 1) / n * kBytes * c.per_byte), 1, 0.02) << c.name;
    EXPECT_NEAR(time(CallKind::all_gather) / ((n - 1) / n * kBytes * c.per_byte), 1, 0.02) << c.name;
  }
}

TEST(TimeModel, AGroupsShareOfTheFirstNodeIsThatOfTheWholeLayout) {
  constexpr int kNode = 8;
  for (const int tensor : {1, 2, 4, 8, 16}) {
    for (const int pipeline : {1, 2, 3, 8, 16}) {
      for (const int data : {1, 2, 3, 4, 32}) {
        const Layout layout{tensor, pipeline, data};
        for (const Group group : {Group::world, Group::tensor, Group::data, Group::pipeline, Group::model,
                                  Group::embedding, Group::mirror}) {
          int local = 0;
          for (const int rank : layout.members(group, 0)) local += rank < kNode ? 1 : 0;
          EXPECT_EQ(span_of(group, 2, layout, kNode).stride, kNode / local)
              << name_of(group) << " " << tensor << " " << pipeline << " " << data;
        }
      }
    }
  }
}

TEST(TimeModel, MessagesBetweenNodesAreSlower) {
  struct Placed {
    const char* name;
    Layout layout;
    int ranks_per_node;
  };
  constexpr Placed kCases[] = {
      {"one node", {2, 4, 1}, 0},
      {"every hop", {8, 4, 1}, 1},
      {"every hop, replicas between", {4, 4, 4}, 1},
      {"every second hop", {4, 4, 1}, 2},
  };
  for (const Placed& c : kCases) {
    EXPECT_EQ(pipeline_ranks_per_node(a100(), c.layout), c.ranks_per_node) << c.name;
  }
  EXPECT_GT(message_time(a100(), 16, kMiB, true).value, 2 * message_time(a100(), 16, kMiB, false).value);

  RunConfig config = real_model();
  config.parallel.pipeline = 2;
  config.parallel.tensor = 8;
  config.parallel.world_size = 16;
  const Costs costs = stage_costs(config, sample::two_ranks(), a100()).costs;
  EXPECT_EQ(costs.ranks_per_node, 1);
  EXPECT_GT(costs.between_nodes.transfer.value, 2 * costs.transfer.value);
}

TEST(TimeModel, AnAcceleratorComputesInTiles) {
  OperatorCall call{.work = GemmCall{.tokens = 4096, .out = 4096, .in = 4096}};
  const auto rate = [&] { return flops_of(call).value / time_of(call, a100(), Load{}).value; };
  const double sustained = 312e12 * a100().accelerator()->constants.device.gemm_share;
  EXPECT_NEAR(rate() / sustained, 0.9, 0.1);
  const double whole = time_of(call, a100(), Load{}).value;
  call.type = DType::fp32;
  EXPECT_NEAR(time_of(call, a100(), Load{}).value / whole, 312 / 19.5, 2);
  call.type = DType::bf16;
  call.get<GemmCall>().tokens = 128;  // few tiles: processors idle, operands come from memory
  EXPECT_LT(rate() / sustained, 0.7);
  // The weight gradient of few tokens moves the fp32 gradient twice.
  call.get<GemmCall>().pass = GemmPass::weight_gradient;
  EXPECT_GT(time_of(call, a100(), Load{}).value, 8 * 4096.0 * 4096 / 2039e9);
}

TEST(Predict, PartsAddUpToTheStep) {
  RunConfig config = real_model();
  config.parallel.world_size = 4;
  config.parallel.tensor = 2;
  config.parallel.pipeline = 2;
  const Prediction p = predict(config, sample::two_ranks(), a100());
  const StepTime& t = p.time;
  const double parts = t.compute.value + t.exposed_tensor.value + t.exposed_pipeline.value +
                       t.exposed_data.value + t.optimizer.value + p.costs.step_overhead.value;
  EXPECT_NEAR(parts / t.step.value, 1, 0.02);
  EXPECT_GT(t.exposed_tensor.value, 0);
  // Two stages, two micro-batches: at least the ideal (P-1)/(M+P-1), less than half.
  EXPECT_GT(t.bubble_fraction, 0.2);
  EXPECT_LT(t.bubble_fraction, 0.5);
  EXPECT_TRUE(p.fit.fits);
  EXPECT_TRUE(p.fit.by_device);
  EXPECT_EQ(p.fit.limit, a100().overhead.device);
  EXPECT_EQ(p.memory.ranks.size() * static_cast<std::size_t>(p.memory.ranks_alike), 4U);
  EXPECT_DOUBLE_EQ(p.throughput.tokens_per_s, 2 * 2048 / t.step.value);
  EXPECT_GT(p.throughput.mfu, 0.01);
  EXPECT_LT(p.throughput.mfu, 0.75);
  EXPECT_GT(p.throughput.hfu, p.throughput.mfu);  // scores are computed twice
  config.machine.memory_budget = kMiB;
  EXPECT_FALSE(predict(config, sample::two_ranks(), a100()).fit.fits);
}

}  // namespace
}  // namespace plumbline
