// Passes of Megatron-Core's layers besides their products, and modules that are recomputed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::framework_modules_test {
namespace {

using testing::HasSubstr;

RunConfig run_of_model(const char* model) {
  RunConfig config;
  config.model = *find_preset(model);
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 64};
  config.numerics.precision = DType::bf16;
  config.parallel.expert = config.parallel.world_size = 8;
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "b200-sxm-180gb";
  config.machine.software = "megatron-core";
  return config;
}

/// Bytes that a rank's kernels of this label move in an action, and their number.
struct Streamed {
  double bytes = 0;
  std::int64_t kernels = 0;
};
Streamed streamed(const RunConfig& config, ActionType type, const std::string& label) {
  Streamed sum;
  for (const OperatorCall& call : calls_of(framework_work(stage_shapes(config, 1).front(), type))) {
    const auto* stream = call.as<StreamCall>();
    if (stream == nullptr || call.label != label) continue;
    sum.bytes += static_cast<double>(call.count * stream->elements) * stream->bytes_per_element;
    sum.kernels += call.count;
  }
  return sum;
}

void whole_graph(RunConfig& config) {
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
}
void layer_graphs(RunConfig& config) {
  config.machine.cuda_graph_impl = CudaGraphImpl::transformer_engine;
}

// Qwen3-30B: 48 layers of 2048, 32 query heads of 128 in 4 groups, 8 experts of 768 per token, 16 of a rank.
TEST(FrameworkModules, LayersHavePassesOfTheirOwn) {
  struct Case {
    const char* label;
    ActionType type;
    void (*change)(RunConfig&);
    double bytes;  // of a layer and token
  };
  constexpr auto kForward = ActionType::forward, kBackward = ActionType::backward;
  constexpr auto kPlain = [](RunConfig&) {};
  const Case cases[] = {
      {"token weights backward", kBackward, kPlain, 8 * 768 * 6},
      {"token weights backward", kBackward, whole_graph, 0},
      {"token weights backward", kForward, kPlain, 0},
      {"token weights backward", kBackward, [](RunConfig& c) { c.machine.software = "megatron-core-2024"; },
       0},
      {"copy queries", kForward, kPlain, 4096 * 4},
      {"copy queries", kBackward, kPlain, 0},
      {"copy queries", kForward, [](RunConfig& c) { c.model.kv_heads = 32; }, 0},
      {"copy into graph", kForward, kPlain, 0},
      {"copy into graph", kForward, layer_graphs, 2048 * 4},
      {"copy into graph", kBackward, layer_graphs, 2 * 2048 * 4},
      {"copy into graph", kForward, whole_graph, 0},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of_model("qwen3-30b-a3b");
    c.change(config);
    EXPECT_EQ(streamed(config, c.type, c.label).bytes, 48 * 4096 * c.bytes) << c.label;
  }
}

// Rows are quantized expert by expert: a kernel each, three with a scale of the current tensor.
TEST(FrameworkModules, CastsOfExpertsAreKernelsOfTheirOwn) {
  struct Case {
    Fp8Recipe recipe;
    void (*change)(RunConfig&);
    std::int64_t kernels;  // of a layer's experts, forward
  };
  constexpr auto kPlain = [](RunConfig&) {};
  for (const Case& c : {Case{Fp8Recipe::mxfp8, kPlain, 2 * 16}, Case{Fp8Recipe::mxfp8, whole_graph, 1},
                        Case{Fp8Recipe::tensorwise, kPlain, 2 * 16 * 3}}) {
    RunConfig config = run_of_model("qwen3-30b-a3b");
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.numerics.fp8.recipe = c.recipe;
    c.change(config);
    EXPECT_EQ(streamed(config, ActionType::forward, "cast to fp8").kernels, 48 * (c.kernels + 2));
  }
}

TEST(FrameworkModules, RecomputedModulesTakeTimeAndFreeMemory) {
  struct Case {
    const char* model;
    RecomputeModules modules;
    double longest;  // step, as a multiple of that without
  };
  const Case cases[] = {
      {"qwen3-30b-a3b", {.layernorm = true}, 1.02},    {"qwen3-30b-a3b", {.moe_act = true}, 1.02},
      {"qwen3-30b-a3b", {.moe = true}, 1.4},           {"deepseek-v3", {.mla_up_proj = true}, 1.05},
      {"deepseek-v3", {.shared_experts = true}, 1.06}, {"llama-3-8b", {.mlp = true}, 1.25},
      {"llama-3-8b", {.layernorm = true}, 1.02},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of_model(c.model);
    if (!config.model.mixture) config.parallel.expert = 1;
    if (!config.model.mixture) config.parallel.ep.token_dispatcher = TokenDispatcher::automatic;
    const auto predicted = [&] {
      return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
    };
    const Prediction kept = predicted();
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = c.modules;
    ASSERT_EQ(why_invalid(config), std::nullopt) << c.model;
    const Prediction recomputed = predicted();
    const double times = recomputed.time.step.value / kept.time.step.value;
    EXPECT_GT(times, 1.001) << c.model << ' ' << to_string(c.modules);
    EXPECT_LT(times, c.longest) << c.model << ' ' << to_string(c.modules);
    EXPECT_LT(recomputed.memory.peak.value, kept.memory.peak.value) << c.model << ' ' << to_string(c.modules);
  }
}

TEST(FrameworkModules, OtherSoftwareHasNoModules) {
  RunConfig config = run_of_model("llama-3-8b");
  config.parallel.expert = 1;
  config.parallel.ep.token_dispatcher = TokenDispatcher::automatic;
  config.machine.software = "torchtitan";
  config.recompute.granularity = Recompute::selective;
  const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
  EXPECT_EQ(why_unpredictable(config, hardware), std::nullopt);
  config.recompute.modules = {.layernorm = true};
  EXPECT_THAT(why_unpredictable(config, hardware).value_or(""),
              HasSubstr("recompute_modules: found layernorm with torchtitan"));
}

}  // namespace
}  // namespace plumbline::framework_modules_test
