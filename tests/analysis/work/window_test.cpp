// Sliding windows in the prediction: layers of a stage with one, FLOPs, time, and unchanged figures.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/flops.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::window_test {
namespace {

/// Six layers over 40 tokens; the windows of 10 keys are where `full` is false.
RunConfig windowed(std::vector<bool> full) {
  RunConfig config = sample::tiny_qwen2();
  config.model.layers = 6;
  config.batch.seq_length = 40;
  config.model.window.size = 10;
  config.model.window.full_layers = std::move(full);
  return config;
}
RunConfig without(RunConfig config) {
  config.model.window.size = 0;
  config.model.window.full_layers.clear();
  return config;
}
const std::vector<bool> kFirstThree = {true, true, true, false, false, false};
const std::vector<bool> kEveryOther = {true, false, true, false, true, false};

/// Windows of the attention calls of a pass in the order in which they run.
std::vector<std::int64_t> windows_in(const StageShape& shape, ActionType type) {
  const ActionWork work = work_of(shape, type);
  std::vector<std::int64_t> windows;
  for (const ActionWork::Run& run : work.runs) {
    for (std::int64_t k = 0; k < run.repeat; ++k) {
      for (const OperatorCall& call : work.parts[run.part].calls) {
        if (const auto* attention = call.as<AttentionCall>()) windows.push_back(attention->window);
      }
    }
  }
  return windows;
}

using Windows = std::vector<std::int64_t>;

TEST(Window, EveryLayerOfAStageHasItsOwn) {
  const auto stages = stage_shapes(windowed(kFirstThree), 2);
  EXPECT_EQ(windows_in(stages[0], ActionType::forward), (Windows{0, 0, 0}));
  EXPECT_EQ(windows_in(stages[1], ActionType::forward), (Windows{10, 10, 10}));
  const auto uneven = stage_shapes(windowed(kFirstThree), 4);  // 2, 2, 1, 1 layers
  EXPECT_EQ(windows_in(uneven[1], ActionType::forward), (Windows{0, 10}));
  EXPECT_EQ(windows_in(uneven[1], ActionType::backward), (Windows{10, 0}));
  const StageShape whole = stage_shapes(windowed(kEveryOther), 1)[0];
  EXPECT_EQ(windows_in(whole, ActionType::forward), (Windows{0, 10, 0, 10, 0, 10}));
  EXPECT_EQ(windows_in(whole, ActionType::backward), (Windows{10, 0, 10, 0, 10, 0}));
  EXPECT_EQ(windows_in(whole, ActionType::backward_input), (Windows{10, 0, 10, 0, 10, 0}));
  EXPECT_EQ(windows_in(whole, ActionType::backward_weight), Windows{});
}

TEST(Window, RecomputedLayersHaveTheirs) {
  RunConfig config = windowed({true, true, false, false, true, false});
  config.recompute.granularity = Recompute::selective;
  // Windows of every layer, last first: forward again, backward.
  EXPECT_EQ(windows_in(stage_shapes(config, 1)[0], ActionType::backward),
            (Windows{10, 10, 0, 0, 10, 10, 10, 10, 0, 0, 0, 0}));
  config.recompute.granularity = Recompute::full;
  config.recompute.num_layers = 4;
  // Layers 4 and 5 forward, 5 and 4 backward; then 0 to 3 and 3 to 0.
  EXPECT_EQ(windows_in(stage_shapes(config, 1)[0], ActionType::backward),
            (Windows{0, 10, 10, 0, 0, 0, 10, 10, 10, 10, 0, 0}));
}

TEST(Window, FlopsFollowThePairsThatAreLeft) {
  const RunConfig config = windowed(kFirstThree);
  const RunConfig plain = without(config);
  // Two products of 2·(a·d) = 2·8 FLOPs for every pair: 40²/2 = 800 of them, or 10·40 - 10²/2 = 350.
  const double hidden = 3 * (800 - 350) * 2 * 2 * 8;
  EXPECT_DOUBLE_EQ(
      model_flops_per_token(plain.model, 40).value - model_flops_per_token(config.model, 40).value,
      3 * hidden / 40);
  const auto forward = [](const RunConfig& c) { return stage_flops(stage_shapes(c, 1)[0]).forward.value; };
  const auto backward = [](const RunConfig& c) { return stage_flops(stage_shapes(c, 1)[0]).backward.value; };
  EXPECT_DOUBLE_EQ(forward(plain) - forward(config), hidden);
  EXPECT_DOUBLE_EQ(backward(plain) - backward(config), 2.5 * hidden);
  EXPECT_DOUBLE_EQ((executed_flops_per_token(plain, 2) - executed_flops_per_token(config, 2)).value,
                   3.5 * hidden / 40);
}

TEST(Window, ThatHoldsTheSequenceChangesNothing) {
  const HardwareProfile& hardware = *find_hardware_preset("h100-sxm-80gb");
  for (const std::int64_t window : {40, 41, 4096}) {
    RunConfig config = windowed(kEveryOther);
    config.model.window.size = window;
    const RunConfig plain = without(config);
    const Schedule schedule = sample::one_rank(config.microbatches());
    const Prediction a = predict(config, schedule, hardware);
    const Prediction b = predict(plain, schedule, hardware);
    EXPECT_EQ(a.time.step.value, b.time.step.value) << window;
    EXPECT_EQ(a.throughput.mfu, b.throughput.mfu) << window;
    EXPECT_EQ(a.throughput.hfu, b.throughput.hfu) << window;
  }
}

TEST(Window, ChangesNoMemory) {
  for (const AttentionBackend backend : {AttentionBackend::fused, AttentionBackend::unfused}) {
    RunConfig config = windowed(kEveryOther);
    config.numerics.attention_backend = backend;
    const Schedule schedule = sample::one_rank(config.microbatches());
    EXPECT_EQ(predict_memory(config, schedule).peak, predict_memory(without(config), schedule).peak);
  }
}

OperatorCall attention_of(std::int64_t seq, std::int64_t window) {
  return {.work = AttentionCall{.queries = seq, .head_dim = 16, .group = 1, .heads = 3, .window = window}};
}

// Blocks of 128 queries; of 300 tokens 128·128 + 128·256 + 44·300 pairs.
TEST(Window, OnAMeasuredMachineTheComputedPairsCount) {
  HardwareProfile hardware;
  hardware.alone.resize(1);
  hardware.alone[0].working_set.value = 1;
  hardware.alone[0].attention["forward.bf16"] = {{300}, {16}, {1}, {2e-6}};
  const auto seconds = [&](std::int64_t window) {
    return time_of(attention_of(300, window), hardware, Load{}).value;
  };
  const double all = 128 * 128 + 128 * 256 + 44 * 300;
  EXPECT_DOUBLE_EQ(seconds(0), 6e-6);
  EXPECT_DOUBLE_EQ(seconds(300), 6e-6);
  // One key: the second block begins with key 128, the third with key 256.
  EXPECT_NEAR(seconds(1), 6e-6 * (128 * 128 + 128 * 128 + 44 * 44) / all, 1e-15);
  // 60 keys: the second block's first row sees keys from 69 on, the third's from 197 on.
  EXPECT_NEAR(seconds(60), 6e-6 * (128 * 128 + 128 * (256 - 64) + 44 * (300 - 192)) / all, 1e-15);
  EXPECT_NEAR(seconds(200), 6e-6 * (128 * 128 + 128 * 256 + 44 * (300 - 0)) / all, 1e-15);
}

TEST(Window, OnAnAcceleratorBlocksOnBothEdgesAreWhole) {
  Device device = find_hardware_preset("a100-sxm-80gb")->accelerator()->constants.device;
  device.kernel_s = 0;
  const auto seconds = [&](std::int64_t window) {
    return accelerator_time(attention_of(8192, window), device).value;
  };
  const double s = 8192;
  const double full = s * s / 2 + 128 * s;
  const double w = 4096;
  EXPECT_NEAR(seconds(4096) / seconds(0), (w * s - w * w / 2 + 128 * s + 128 * (s - w)) / full, 1e-9);
  double before = 0;
  for (const std::int64_t window : {1, 128, 512, 2048, 8000, 8191}) {
    EXPECT_GE(seconds(window), before) << window;
    EXPECT_LE(seconds(window), seconds(0)) << window;
    before = seconds(window);
  }
  EXPECT_EQ(seconds(8192), seconds(0));
}

}  // namespace
}  // namespace plumbline::window_test
