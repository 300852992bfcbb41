// The end of Megatron-Core's step: buckets of gradients, passes over their buffer, gathers of parameters.
#include <gtest/gtest.h>

#include <string>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/parameter_units.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::framework_step_end_test {
namespace {

RunConfig dense(const char* software, int pipeline) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 256};
  config.numerics.precision = DType::bf16;
  config.parallel.pipeline = pipeline;
  config.parallel.world_size = 16;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = software;
  return config;
}

std::vector<GradientBucket> buckets(const RunConfig& config, int stage) {
  return gradient_buckets(stage_shapes(config, config.parallel.pipeline)[static_cast<std::size_t>(stage)],
                          config.parallel.dp.bucket_size);
}

// Layers have 218 million elements, the embedding 525.
TEST(FrameworkStepEnd, LaterPipelineRanksReduceTheirGradientsAtOnce) {
  EXPECT_EQ(buckets(dense("megatron-core", 2), 0).size(), 16 + 1);
  EXPECT_EQ(buckets(dense("megatron-core", 2), 1).size(), 1);
  EXPECT_EQ(buckets(dense("deepspeed", 2), 1).size(), 16 + 1);
  RunConfig interleaved = dense("megatron-core", 2);
  interleaved.parallel.pp.schedule = "interleaved";
  EXPECT_EQ(buckets(interleaved, 0).size(), 1);
  RunConfig wide = dense("megatron-core", 1);
  wide.parallel.world_size = 256;  // a million elements per data rank
  EXPECT_EQ(buckets(wide, 0).size(), 16 + 2);
  std::int64_t elements = 0;
  for (const GradientBucket& bucket : buckets(wide, 0)) elements += bucket.reduce.elements();
  std::int64_t units = 0;
  for (const ParameterUnit& unit : units_of(stage_shapes(wide, 1).front())) units += unit.padded;
  EXPECT_EQ(elements, units);
}

std::vector<OperatorCall> update_calls_of(const RunConfig& config) {
  HeldStages rank;
  rank.held = stage_shapes(config, 1);
  rank.layout = config.layout();
  return framework_update_calls(rank);
}

double moved(const std::vector<OperatorCall>& calls, const std::string& label) {
  double bytes = 0;
  for (const OperatorCall& call : calls) {
    if (call.label == label)
      bytes += static_cast<double>(call.elements()) * call.as<StreamCall>()->bytes_per_element;
  }
  return bytes;
}

/// Sums of single numbers over all 16 ranks.
std::int64_t statistics_of(const std::vector<OperatorCall>& calls) {
  std::int64_t sums = 0;
  for (const OperatorCall& call : calls) {
    if (std::string(call.label) != "statistics all-reduce") continue;
    EXPECT_EQ(call.collective()->ranks, 16);
    sums += call.count;
  }
  return sums;
}

// Composer's AdamW reads a number of the device before it updates a parameter by 8 kernels; a rank has parts
// of 5 parameters of each of 32 layers, and of one more. Others launch a few kernels for all.
TEST(FrameworkStepEnd, AnOptimizerMayUpdateParameterAfterParameter) {
  struct Case {
    const char* software;
    double operators, reads, gathered;  // the last: zeros and a copy of 4 numbers of 16 ranks
    std::int64_t sums;
  };
  for (const Case& c : {Case{"llm-foundry", (32 * 5 + 1) * 10, (32 * 5 + 1) * 2, 4 * 16 * 2, 13},
                        Case{"torchtitan", 0, 0, 0, 0}, Case{"megatron-core", 0, 0, 0, 3}}) {
    RunConfig config = dense(c.software, 1);
    config.parallel.dp.zero_stage = 3;
    HeldStages rank;
    rank.held = stage_shapes(config, 1);
    rank.layout = config.layout();
    const UpdateLaunches launches = update_launches(rank);
    EXPECT_NEAR(launches.all.value, c.operators * 8e-6, 1e-12) << c.software;
    EXPECT_NEAR(launches.idle.value, c.reads * 8e-6, 1e-12) << c.software;
    EXPECT_NEAR(launches.gathered.value, c.gathered * 8e-6, 1e-12) << c.software;
    EXPECT_EQ(statistics_of(framework_update_calls(rank)), c.sums) << c.software;
  }
}

TEST(FrameworkStepEnd, PassesOverAllGradientsAreCounted) {
  struct Case {
    const char* software;
    double cleared, scaled, unscaled;  // bytes per element, the last of a rank's piece in fp16
  };
  const Case cases[] = {{"megatron-core", 4, 8, 8},
                        {"nemo-2024", 4, 0, 8},
                        {"megatron-bridge", 2, 0, 8},
                        {"deepspeed", 0, 0, 0}};
  for (const Case& c : cases) {
    RunConfig config = dense(c.software, 1);
    const auto elements = static_cast<double>(trainable_elements(stage_shapes(config, 1).front()));
    const std::vector<OperatorCall> calls = update_calls_of(config);
    EXPECT_NEAR(moved(calls, "clear gradients") / elements, c.cleared, 1e-9) << c.software;
    EXPECT_NEAR(moved(calls, "scale gradients") / elements, c.scaled, 1e-9) << c.software;
    EXPECT_EQ(moved(calls, "unscale gradients"), 0) << c.software;
    config.numerics.precision = DType::fp16;
    EXPECT_NEAR(moved(update_calls_of(config), "unscale gradients") / elements * 16, c.unscaled, 1e-6)
        << c.software;
    EXPECT_EQ(statistics_of(calls), std::string(c.software) == "deepspeed" ? 0 : 3) << c.software;
  }
}

// Gathered in 16 bit, whichever form products read.
TEST(FrameworkStepEnd, ParametersInMxfp8AreGatheredIn16Bit) {
  const auto narrow = [](Fp8Recipe recipe) {
    RunConfig config = dense("megatron-bridge", 1);
    config.machine.hardware = "b200-sxm-180gb";
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.numerics.fp8.recipe = recipe;
    config.numerics.fp8.param_gather = true;
    for (const OperatorCall& call : update_calls_of(config)) {
      if (std::string(call.label) == "parameter all-gather" && call.type == DType::fp8_e4m3) return true;
    }
    return false;
  };
  EXPECT_TRUE(narrow(Fp8Recipe::tensorwise));
  EXPECT_FALSE(narrow(Fp8Recipe::mxfp8));
}

}  // namespace
}  // namespace plumbline::framework_step_end_test
