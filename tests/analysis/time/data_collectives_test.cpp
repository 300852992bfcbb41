// Computation alongside collectives of parameters and gradients, which hold multiprocessors.
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/action_time.hpp"
#include "analysis/time/stage/gather_waits.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::data_collectives_test {
namespace {

RunConfig llama(int world, int zero, const char* software) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.batch = {.seq_length = 8192, .micro_batch_size = 2, .global_batch_size = std::int64_t{2} * world};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = world;
  config.parallel.dp.zero_stage = zero;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = software;
  return config;
}

HardwareProfile h100(double held) {
  HardwareProfile machine = *find_hardware_preset("h100-sxm-80gb");
  std::get<Accelerator>(machine.kind).constants.device.collective_processors = held;
  return machine;
}

// A pass loses what its hidden gathers and scatters take from its kernels.
TEST(DataCollectives, HiddenOnesSlowAPassDown) {
  struct Case {
    int world;
    double slowdown;
  };
  for (const Case& c : {Case{8, 132.0 / 108}, Case{64, 132.0 / 116}}) {
    const StageShape shape = stage_shapes(llama(c.world, 3, "torchtitan"), 1).front();
    Load load;
    load.layout = {1, 1, c.world};
    for (const ActionType type : {ActionType::forward, ActionType::backward}) {
      const ActionWork work = framework_work(shape, type);
      const ActionTime free = time_action(work, h100(0), load);
      const ActionTime time = time_action(work, h100(24), load);
      const double hidden = (time.gathered + time.scattered - time.gathers - time.scatters).value;
      EXPECT_EQ(free.slower.value, 0);
      EXPECT_NEAR(time.slower.value, hidden * (1 - 1 / c.slowdown), 0.03 * time.slower.value) << c.world;
      EXPECT_GT(time.all.value, free.all.value);
      EXPECT_LE(time.all.value, free.all.value + time.slower.value + 1e-9);
    }
  }
}

double slower(const Prediction& prediction) {
  double seconds = 0;
  for (const CostLine& line : prediction.lines)
    if (line.label == "slower alongside data collectives") seconds += line.seconds.value;
  return seconds;
}

// ZeRO-3 slows every pass down: a line of its own. Plumbline's own step is priced without.
TEST(DataCollectives, HaveALineOfTheirOwn) {
  const auto predicted = [](const char* software, double held) {
    const RunConfig config = llama(64, 3, software);
    return predict(config, schedule_for(config), h100(held));
  };
  for (const char* software : {"torchtitan", "torchtitan-compile", "megatron-bridge-fsdp"}) {
    const Prediction with = predicted(software, 24);
    const Prediction without = predicted(software, 0);
    EXPECT_EQ(slower(without), 0);
    EXPECT_GT(slower(with), 0);
    const double more = (with.time.step - without.time.step).value;
    EXPECT_GT(more, 0);
    EXPECT_LE(more, slower(with) + 1e-6) << software;
  }
  EXPECT_EQ(slower(predicted("plumbline", 24)), 0);
}

// Gathers of ZeRO 1 that one layer's forward does not hide make the first forward wait for the next layer's.
// OPT waits for the first layer's alone. Several chunks per rank gather together, while the pipeline fills.
TEST(DataCollectives, TheFirstForwardWaitsForParameters) {
  const auto predicted = [](int pipeline, int chunks, bool overlaps, bool aligned = true) {
    RunConfig config = llama(64, 1, "megatron-bridge");
    config.batch = {.seq_length = 512, .micro_batch_size = 1, .global_batch_size = 512};
    config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;  // no waits for the host
    config.parallel.dp.align_param_gather = aligned;
    config.parallel.pipeline = pipeline;
    config.parallel.pp.virtual_chunks = chunks;
    if (chunks > 1) config.parallel.pp.schedule = "interleaved";
    if (chunks > 1) config.parallel.pp.layer_distribution = "1,7,4,4,4,4,4,4";
    config.parallel.dp.overlap_param_gather = overlaps;
    return predict(config, schedule_for(config), *find_hardware_preset("h100-sxm-80gb"));
  };
  const auto sum = [](const Prediction& prediction, std::string_view label, std::string_view phase) {
    double seconds = 0;
    for (const CostLine& line : prediction.lines)
      if (line.label == label && (phase.empty() || line.phase == phase)) seconds += line.seconds.value;
    return seconds;
  };
  const Prediction flat = predicted(1, 1, true);
  const double gather = 32 * sum(flat, "parameter all-gather", "step");
  const double forward = flat.costs.stages.front().forward.value;
  const double waits = sum(flat, "waits for parameters", "step");
  EXPECT_GT(waits, 0);
  EXPECT_GT(waits, (gather - forward) * 31 / 32);  // besides what hooks start late
  EXPECT_LT(waits, gather * 31 / 32);
  const double slower = sum(flat, "slower alongside data collectives", "step");  // and the last backward
  EXPECT_GT(flat.costs.stages.front().first_forward.value, waits);
  EXPECT_LT(flat.costs.stages.front().first_forward.value, waits + slower);
  EXPECT_NEAR(
      slower,
      (flat.costs.stages.front().first_forward + flat.costs.stages.front().last_backward).value - waits,
      1e-9);
  EXPECT_EQ(sum(predicted(1, 1, false), "waits for parameters", ""), 0);
  EXPECT_EQ(sum(predicted(4, 1, true), "waits for parameters", ""), 0);
  const double chunked = sum(predicted(4, 2, true), "waits for parameters", "");
  EXPECT_GT(chunked, 0);
  EXPECT_LT(chunked, waits / 4);  // a rank gathers a fourth, and its second chunk's has long arrived

  // Stages behind the first have one bucket. Their first forwards wait for what is still to come of it: of
  // gathers that start with the step, or of their own, which starts only then. Rank 1 has 7 and 4 layers.
  const Prediction together = predicted(4, 2, true);
  const Prediction alone = predicted(4, 2, true, false);
  double layer = 0;  // its gather; what OPT waits for
  for (const CostLine& line : together.lines)
    if (line.label == "parameter all-gather" && line.phase == "step" && line.stage == 1)
      layer += line.seconds.value;
  const auto first_forward = [](const Prediction& p, std::size_t stage) {
    return p.costs.stages[stage].first_forward.value;
  };
  const double begins = together.costs.stages[0].forward.value + first_forward(together, 0);
  EXPECT_GT(first_forward(together, 1), layer);
  EXPECT_NEAR(first_forward(together, 1), 6 * layer - begins, 0.05 * layer);
  EXPECT_NEAR(first_forward(alone, 1), 7 * layer, 0.05 * layer);
  EXPECT_NEAR(first_forward(alone, 5), 4 * layer, 0.05 * layer);
  EXPECT_GT((alone.time.step - together.time.step).value, 7 * layer);
  EXPECT_EQ(sum(predicted(4, 2, true, false), "parameter all-gather", "step"), 0);
  EXPECT_EQ(predicted(1, 1, true, false).time.step.value, flat.time.step.value);
}

// Of a module with several buckets only the first is gathered ahead of its hook; buckets close from the last
// parameter on.
TEST(DataCollectives, HooksGatherOneBucketAhead) {
  constexpr auto kRest = GatherChain::rest;
  constexpr auto kExperts = GatherChain::experts;
  struct Case {
    std::vector<HookedModule> modules;
    double least;
    double waits;
  };
  const std::vector<Case> cases = {
      {{{kRest, 1, 10, 5}}, 1, 1},                                          // nothing computes before
      {{{kRest, 1, 5, 5}, {kRest, 1, 5, 5}}, 1, 0.5},                       // the second behind the first
      {{{kRest, 1, 5, 0.25}, {kRest, 1, 5, 5}}, 1, 0.75},                   // in part
      {{{kRest, 1, 5, 5}, {kRest, 1, 5, 5}}, 6, 1},                         // one bucket of both
      {{{kRest, 1, 2, 5}, {kRest, 4, 2, 5}}, 1, 0.8},                       // four buckets, one hidden
      {{{kRest, 1, 2, 5}, {kRest, 4, 2, 5}}, 3, 0.6},                       // 4, 4 and 2 elements
      {{{kRest, 1, 2, 5}, {kExperts, 2, 2, 5}, {kRest, 1, 2, 5}}, 1, 1.5},  // a chain each
      {{{kRest, 1, 2, 5}, {kExperts, 2, 2, 5}, {kExperts, 2, 2, 5}}, 1, 1.75},
  };
  for (const Case& c : cases) {
    const double waits = gather_waits(c.modules, c.least, [](GatherChain, double share) { return share; });
    EXPECT_NEAR(waits, c.waits, 1e-12) << &c - cases.data();
  }
}

// gpt-oss with 16 experts per rank: 6 buckets in two modules of a layer, of which 4 start too late.
TEST(DataCollectives, ExpertsOfARankArriveBucketByBucket) {
  RunConfig config;
  config.model = *find_preset("gpt-oss-120b");
  config.batch = {.seq_length = 4096, .micro_batch_size = 4, .global_batch_size = 1280};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = 64;
  config.parallel.expert = 8;
  config.parallel.dp.zero_stage = 1;
  config.machine.software = "megatron-bridge";
  const Prediction prediction =
      predict(config, schedule_for(config), *find_hardware_preset("b300-sxm-270gb"));
  double layer = 0;
  double waits = 0;
  for (const CostLine& line : prediction.lines) {
    if (line.label == "expert parameter all-gather") layer = line.seconds.value;
    if (line.label == "waits for parameters") waits = line.seconds.value;
  }
  EXPECT_GT(layer, 0);
  EXPECT_NEAR(waits, 36 * layer * 4 / 6, 0.06 * waits);
}

}  // namespace
}  // namespace plumbline::data_collectives_test
