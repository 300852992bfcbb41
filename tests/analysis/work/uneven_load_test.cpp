// moe_routing of other software: rows of the fullest rank, and the time that they cost.
#include "analysis/work/routing/uneven_load.hpp"

#include <gtest/gtest.h>

#include <string>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::uneven_load_test {
namespace {

RunConfig routed(const std::string& routing, int ranks) {
  RunConfig config;
  config.model = *find_preset("qwen3-30b-a3b");  // 128 experts
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 256};
  config.numerics.precision = DType::bf16;
  config.parallel.expert = ranks;
  config.parallel.ep.token_dispatcher = TokenDispatcher::alltoall;
  config.parallel.world_size = 128;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-core";
  config.mixture.routing = routing;
  return config;
}

TEST(UnevenLoad, TheFullestRankHasMoreRowsTheFewerExpertsItHolds) {
  struct Case {
    const char* routing;
    int ranks;
    double fullest, inside;
  };
  const Case cases[] = {
      {"balanced", 8, 1.0071, 1},  // 32,768 rows deviate by 0.5 %, the largest of 8 is 1.42
      {"zipf:0", 8, 1, 1},          {"real", 1, 1, 1.12},  // all experts on every rank
      {"real", 8, 1.100, 1.12},  // deviations of 0.298 for an expert, 0.070 for 16; the largest of 8 is 1.42
      {"real", 128, 1.77, 1},    // one expert each, the largest of 128 is 2.6 deviations
      {"zipf:0.5", 8, 1.249, 1.12},
  };
  for (const Case& c : cases) {
    const UnevenLoad load = uneven_load(routed(c.routing, c.ranks));
    EXPECT_NEAR(load.fullest, c.fullest, 0.1 * (c.fullest - 1)) << c.routing << ' ' << c.ranks;
    EXPECT_DOUBLE_EQ(load.inside, c.inside) << c.routing << ' ' << c.ranks;
  }
}

TEST(UnevenLoad, AnUnevenLoadTakesLongerAndLeavesMemory) {
  const auto predicted = [](const std::string& routing) {
    RunConfig config = routed(routing, 8);
    config.batch.micro_batch_size = 2;  // kernels long enough for the host to be ahead
    return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
  };
  const Prediction even = predicted("balanced"), real = predicted("real"), steep = predicted("zipf:1");
  EXPECT_GT(real.time.step.value, 1.02 * even.time.step.value);
  EXPECT_GT(steep.time.step.value, real.time.step.value);
  EXPECT_EQ(real.memory.peak.value, even.memory.peak.value);
}

}  // namespace
}  // namespace plumbline::uneven_load_test
