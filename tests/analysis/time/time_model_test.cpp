// The time model's sanity, and a whole prediction.
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

namespace plumbline::time_model_test {
namespace {

const HardwareProfile& a100() {
  return *find_hardware_preset("a100-sxm-80gb");
}

Costs costs_of(const RunConfig& config, const HardwareProfile& hardware) {
  return stage_costs(config, sample::one_rank(config.microbatches()), hardware).costs;
}

TEST(TimeModel, MoreWorkTakesLonger) {
  const RunConfig base = sample::real_model();
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
  const RunConfig config = sample::real_model();
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

// The bound counts where newer kernels are faster, for every size of heads, and not where they are slower.
TEST(OperatorTime, OlderAttentionReachesAShareOfThePeakAtMost) {
  const Device device = find_hardware_preset("a100-sxm-80gb")->accelerator()->constants.device;
  struct Case {
    std::int64_t head;
    bool backward;
    double most_share, expected_share;
  };
  for (const Case& c : {Case{128, false, 0.4, 0.4}, Case{64, false, 0.4, 0.4}, Case{64, true, 0.3, 0.3},
                        Case{128, true, 0.3, 0.3}, Case{128, false, 0.7, device.attention.forward},
                        Case{128, true, 0.7, device.attention.backward}}) {
    OperatorCall call{.work = AttentionCall{
                          .backward = c.backward, .most_share = c.most_share, .queries = 8192, .heads = 16}};
    call.get<AttentionCall>().head_dim = c.head;
    // Blocks of 128 on the diagonal are whole: s·(s + 256)/2 pairs, of two products forward, five backward.
    const double flops =
        (c.backward ? 10.0 : 4.0) * 16 * 0.5 * 8192 * (8192 + 256) * static_cast<double>(c.head);
    EXPECT_NEAR(accelerator_time(call, device).value / (flops / (device.peak_16bit * c.expected_share)), 1,
                0.005)
        << c.head << " " << c.backward << " " << c.most_share;
  }
}

TEST(TimeModel, CollectivesOfACutVocabularyHoldProcessorsOfAnAccelerator) {
  const HardwareProfile accelerator = load_hardware("a100-sxm-80gb");
  RunConfig config = sample::tiny_gpt2();
  EXPECT_EQ(collective_contention(config, accelerator, software_of(config)), 1);
  config.parallel.pp.vocab_parallel = VocabPasses::two_barriers;
  EXPECT_EQ(collective_contention(config, HardwareProfile{}, software_of(config)), 1)
      << "a machine that was measured";
  const double passes = collective_contention(config, accelerator, software_of(config));
  config.parallel.pp.vocab_parallel = VocabPasses::interlaced;
  EXPECT_GT(collective_contention(config, accelerator, software_of(config)), 1);
  EXPECT_GT(passes, collective_contention(config, accelerator, software_of(config)));
  OperatorCall call{.work = GemmCall{.tokens = 1024, .out = 1024, .in = 1024}};
  Load load;
  const double alone = time_of(call, accelerator, load).value;
  load.collective_contention = passes;
  EXPECT_DOUBLE_EQ(time_of(call, accelerator, load).value, alone * passes);
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
  RunConfig config = sample::real_model();
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
}  // namespace plumbline::time_model_test
