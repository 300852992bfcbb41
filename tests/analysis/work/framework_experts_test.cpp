// Products of experts, their router and the loss of MoE models under other software.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "analysis/time/accelerator_time.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_experts_test {
namespace {

using namespace frameworks;

// Transformer Engine multiplies expert by expert, one graph of the step with one kernel; dropless experts
// have rows in tiles that are not full.
TEST(FrameworkExperts, ProductsOfExpertsAreKernelsOfTheirOwn) {
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  const auto product = [&] { return calls_named(shape_of(config), ActionType::forward, "fc1")[0]; };
  const Device& device = find_hardware_preset("h100-sxm-80gb")->accelerator()->constants.device;
  OperatorCall eager = product();
  EXPECT_TRUE(eager.as<GemmCall>()->apart);
  EXPECT_DOUBLE_EQ(eager.as<GemmCall>()->spread, std::sqrt(2048.0));
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
  const OperatorCall graph = product();
  EXPECT_FALSE(graph.as<GemmCall>()->apart);
  const double apart = (accelerator_time(eager, device) - accelerator_time(graph, device)).value;
  EXPECT_NEAR(apart, 15 * device.kernel_s, 1e-12);
  const double ragged = accelerator_time(eager, device).value;
  eager.get<GemmCall>().spread = 0;
  EXPECT_GT(ragged, 1.01 * accelerator_time(eager, device).value);
  EXPECT_LT(ragged, 1.06 * accelerator_time(eager, device).value);
  config.machine.cuda_graph_impl = CudaGraphImpl::none;
  config.numerics.fp8.format = Fp8Format::hybrid;
  const OperatorCall fp8 = product();
  EXPECT_TRUE(fp8.as<GemmCall>()->fp8 && fp8.as<GemmCall>()->apart);
  EXPECT_DOUBLE_EQ(fp8.as<GemmCall>()->spread, std::sqrt(2048.0));
}

TEST(FrameworkExperts, TilesThatRowsOfSomeDeviationBegin) {
  EXPECT_EQ(tiles_of(1024, 128, 0), 8);
  EXPECT_EQ(tiles_of(1025, 128, 0), 9);
  EXPECT_NEAR(tiles_of(1024, 128, 32), 8.5, 1e-3) << "half of them have more rows";
  EXPECT_NEAR(tiles_of(1088, 128, 1), 9, 1e-3);
  EXPECT_NEAR(tiles_of(65536, 128, 256), 512.5, 0.2);
  EXPECT_NEAR(tiles_of(1, 256, 1), 1, 0.2);
}

// A router in fp32 casts its input and the input's gradient, and multiplies in TF32, backward: with
// Megatron-LM's recipes, and with Megatron-Bridge in models with latent attention.
TEST(FrameworkExperts, ARouterInFp32CastsAndTakesTwiceAsLong) {
  struct Case {
    const char* model;
    const char* software;
    bool fp32;
  };
  const Case cases[] = {{"qwen3-30b-a3b", "megatron-core", true},
                        {"qwen3-30b-a3b", "megatron-bridge", false},
                        {"deepseek-v3", "megatron-bridge", true},
                        {"mixtral-8x7b", "nemo-2025", false}};
  for (const Case& c : cases) {
    RunConfig config = mixture(c.model, 1, 8, 1, 8);
    config.machine.software = c.software;
    const StageShape shape = shape_of(config);
    EXPECT_EQ(!calls_named(shape, ActionType::backward, "router casts").empty(), c.fp32) << c.model;
    EXPECT_TRUE(calls_named(shape, ActionType::forward, "router casts").empty()) << c.model;
    for (const OperatorCall& call : calls_named(shape, ActionType::backward, "router")) {
      if (call.as<GemmCall>() == nullptr) continue;
      EXPECT_EQ(call.share, c.fp32 ? 2 : 1) << c.model;
    }
    for (const OperatorCall& call : calls_named(shape, ActionType::forward, "router"))
      EXPECT_EQ(call.share, 1) << c.model;
  }
}

// Kernels of their own, and tiles that ragged rows leave partly empty, are lines beside those of the experts'
// products.
TEST(FrameworkExperts, ProductsOfExpertsAreExplainedInParts) {
  const auto lines = [](const RunConfig& config) {
    std::map<std::string, double> sums;
    for (const CostLine& line :
         predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware)).lines)
      if (line.phase == "forward") sums[line.label] += line.seconds.value;
    return sums;
  };
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  auto eager = lines(config);
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
  auto graph = lines(config);
  EXPECT_GT(eager["experts in kernels of their own"], 0);
  EXPECT_EQ(graph.count("experts in kernels of their own"), 0);
  EXPECT_NEAR(graph["fc1 forward"], eager["fc1 forward"], 1e-9);
  config = mixture("mixtral-8x7b", 1, 8, 0, 8);
  config.batch.seq_length = 3000;
  EXPECT_GT(lines(config)["partly empty tiles of experts"], 0);
  // HybridEP on one host: 4096 tokens of 4 KiB, and 128 weights of four bytes, on 5.25 of 8 ranks; the
  // fullest rank's are 0.7 % more.
  config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-bridge";
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  auto dispatched = lines(config);
  const double layers_per_rate = 1.00721 * 48 * 8 * (1 - std::pow(7.0 / 8, 8)) * 7 / 8 / 370e9;
  EXPECT_NEAR(dispatched["weights of dispatched tokens"], layers_per_rate * 4096 * 512, 1e-6);
  EXPECT_NEAR(dispatched["adding up experts' results"], layers_per_rate * 4096 * 4096 * (1 / 0.92 - 1), 1e-6);
}

// Megatron-Bridge's recipes compute the loss by Transformer Engine, in the logits' place.
TEST(FrameworkExperts, TheLossReadsLogitsAsTheSoftwareDoes) {
  struct Case {
    const char* software;
    double forward, backward;  // bytes per logit
  };
  for (const Case& c : {Case{"megatron-bridge", 6, 4}, Case{"megatron-core", 26, 14}}) {
    RunConfig config = mixture("deepseek-v3", 1, 8, 1, 8);
    config.machine.software = c.software;
    const auto bytes = [&](ActionType type) {
      return calls_named(shape_of(config), type, "loss")[0].as<StreamCall>()->bytes_per_element;
    };
    EXPECT_DOUBLE_EQ(bytes(ActionType::forward), c.forward) << c.software;
    EXPECT_DOUBLE_EQ(bytes(ActionType::backward), c.backward) << c.software;
  }
}

}  // namespace
}  // namespace plumbline::framework_experts_test
