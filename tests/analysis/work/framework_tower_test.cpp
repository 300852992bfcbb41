// Vision towers of first stages: parameters, memory, work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/step/parameters.hpp"
#include "analysis/step/vision_tower.hpp"
#include "analysis/work/parameter_units.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_tower_test {
namespace {

using frameworks::calls_named;
using frameworks::first_shape;
using frameworks::flops_of;
using frameworks::predicted;

/// 1024 patches an image of 256 tokens, 2 images of a micro-batch.
RunConfig run_of_model(const char* model = "qwen3-vl-8b", int tensor = 1, int pipeline = 2) {
  RunConfig config;
  config.model = *find_preset(model);
  config.batch = {.seq_length = 4096, .micro_batch_size = 2, .global_batch_size = 64};
  config.batch.images_per_sequence = 1;
  config.batch.image_tokens = 256;
  config.numerics.precision = DType::bf16;
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.parallel.world_size = 8;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-bridge";
  return config;
}

RunConfig projection_alone(RunConfig config = run_of_model()) {
  config.finetune.freeze_language_model = config.finetune.freeze_vision_model = true;
  return config;
}

TEST(FrameworkTower, FirstStageAloneHoldsItsParameters) {
  for (const char* name : {"qwen3-vl-8b", "qwen2.5-vl-7b"}) {
    const RunConfig config = run_of_model(name);
    RunConfig text = config;
    text.batch.images_per_sequence = 0;
    const std::vector<StageShape> stages = stage_shapes(config, 2);
    const std::int64_t tower = config.model.predicted.vision.parameters();
    EXPECT_EQ(parameters_of(stages.front()).total(), parameters_of(first_shape(text)).total() + tower);
    EXPECT_EQ(parameters_of(stages.back()).vision, 0);
    EXPECT_EQ(tower_elements(stages.front()).all().total(), tower) << name;
    EXPECT_EQ(elements_of(stages.front()).whole() - elements_of(first_shape(text)).whole(), tower);
  }
}

// Megatron-Bridge's tower of Qwen3-VL is cut over tensor ranks; that of Qwen2.5-VL is transformers', whole.
TEST(FrameworkTower, IsCutOverTensorRanksByItsKind) {
  const StageShape whole = first_shape(run_of_model("qwen3-vl-8b", 1));
  const StageShape cut = first_shape(run_of_model("qwen3-vl-8b", 4));
  EXPECT_EQ(tower_elements(cut).layers.matrices, tower_elements(whole).layers.matrices / 4);
  EXPECT_EQ(tower_elements(cut).mergers.matrices, tower_elements(whole).mergers.matrices / 4);
  EXPECT_EQ(tower_elements(cut).embedding.total(), tower_elements(whole).embedding.total());
  EXPECT_EQ(tower_elements(first_shape(run_of_model("qwen2.5-vl-7b", 4))).all().total(),
            find_preset("qwen2.5-vl-7b")->predicted.vision.parameters());
}

TEST(FrameworkTower, FrozenPartsHaveNoGradientsAndStates) {
  const RunConfig config = run_of_model();
  const StageShape stage = first_shape(config);
  const TowerElements tower = tower_elements(stage);
  const std::int64_t language = elements_of(stage).whole() - tower.all().total();
  struct Case {
    bool language, model, projection;
    std::int64_t trained;
  };
  for (const Case& each : {Case{false, false, false, language + tower.all().total()},
                           {true, true, false, tower.mergers.total()},
                           {true, false, false, tower.all().total()},
                           {true, false, true, tower.embedding.total() + tower.layers.total()},
                           {false, true, true, language},
                           {false, true, false, language + tower.mergers.total()}}) {
    RunConfig frozen = config;
    frozen.finetune.freeze_language_model = each.language;
    frozen.finetune.freeze_vision_model = each.model;
    frozen.finetune.freeze_vision_projection = each.projection;
    const StageShape shape = first_shape(frozen);
    // Padding of units aside.
    EXPECT_NEAR(static_cast<double>(trainable_elements(shape)), static_cast<double>(each.trained), 1e5);
    const MemoryBreakdown held = frameworks::held_bytes(frozen);
    const auto all = static_cast<double>(language + tower.all().total());
    const auto gradients = static_cast<double>(held[Category::gradients].value);
    EXPECT_NEAR(gradients / static_cast<double>(shape.numerics.g()), static_cast<double>(each.trained), 1e5);
    EXPECT_NEAR(static_cast<double>(held[Category::parameters].value), 2 * all, 1e6);
    EXPECT_EQ(held[Category::optimizer].value > 0, each.trained > 0);
  }
  // Without a gradient in it, a stage behind the first trains nothing.
  const std::vector<StageShape> stages = stage_shapes(projection_alone(), 2);
  EXPECT_EQ(trainable_elements(stages.back()), 0);
}

TEST(FrameworkTower, ForwardHasTheProductsOfPatchesLayersAndMergers) {
  RunConfig text = run_of_model();
  text.batch.images_per_sequence = 0;
  const double patches = 2 * 1024;
  const double layer = 2 * patches * (4 * 1152.0 * 1152 + 2 * 1152.0 * 4304) + 2 * 2 * patches * 1024 * 1152;
  const double merger = 2 * (patches / 4) * 4608.0 * (4608 + 4096);
  const double expected = 2 * patches * 1536 * 1152 + 27 * layer + 4 * merger;
  const auto forward = [&](const RunConfig& config) {
    return flops_of(calls_of(framework_work(first_shape(config), ActionType::forward))).value;
  };
  EXPECT_NEAR((forward(run_of_model()) - forward(text)) / expected, 1, 1e-9);
  const auto backward = [&](const RunConfig& config) {
    return flops_of(calls_of(framework_work(first_shape(config), ActionType::backward))).value;
  };
  // Attention's backward has 2.5 times its forward's FLOPs.
  const double attention = 27 * 2 * 2 * patches * 1024 * 1152;
  const double patch_inputs = 2 * patches * 1536 * 1152;
  EXPECT_NEAR((backward(run_of_model()) - backward(text)) / (2 * expected - patch_inputs + attention / 2), 1,
              1e-9);
  // With mergers alone: their own products, and the language model's input gradients.
  EXPECT_NEAR(flops_of(calls_named(first_shape(projection_alone()), ActionType::backward, "merger")).value /
                  (2 * 4 * merger),
              1, 1e-9);
  EXPECT_LT(backward(projection_alone()), 0.6 * backward(text));
}

TEST(FrameworkTower, WindowsAreThoseOfQwen25) {
  // 3 of 4 layers see windows of 8 · 8 patches.
  const std::vector<TowerLayers> layers = tower_layers(first_shape(run_of_model("qwen2.5-vl-7b")));
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].count, 28);
  EXPECT_EQ(layers[0].layer.stream.seq, 64);
  EXPECT_EQ(layers[0].layer.stream.batch, 32);
  EXPECT_EQ(layers[1].count, 4);
  EXPECT_EQ(layers[1].layer.stream.seq, 1024);
}

TEST(FrameworkTower, KeepsActivationsOnlyForABackward) {
  const StageShape trained = first_shape(run_of_model());
  const StageShape projected = first_shape(projection_alone());
  const std::int64_t stream = 2 * 2 * 1024 * 1152;
  EXPECT_EQ(framework_tower_bytes(projected).kept, 4 * 4 * stream);
  // At least what the norms' inputs of its 27 layers take.
  EXPECT_GT(framework_tower_bytes(trained).kept, 27 * 2 * stream);
  EXPECT_GT(framework_tower_bytes(projected).passing, 2 * stream);
  EXPECT_EQ(framework_tower_bytes(stage_shapes(run_of_model(), 2).back()).kept, 0);
  // The frozen language model keeps no operands of weight gradients.
  RunConfig config = projection_alone();
  const std::int64_t frozen = framework_layer_bytes(first_shape(config));
  config.finetune.freeze_language_model = false;
  EXPECT_LT(frozen, framework_layer_bytes(first_shape(config)));
}

TEST(FrameworkTower, ChangesTheStepInItsDirection) {
  const auto step = [](const RunConfig& config) { return predicted(config).time.step.value; };
  RunConfig text = run_of_model();
  text.batch.images_per_sequence = 0;
  RunConfig more = run_of_model();
  more.batch.images_per_sequence = 4;
  const double whole = step(run_of_model());
  EXPECT_LT(step(text), whole);
  EXPECT_LT(whole, step(more));
  EXPECT_LT(step(projection_alone()), 0.85 * whole);
  RunConfig frozen = run_of_model();
  frozen.finetune.freeze_vision_model = true;
  EXPECT_LT(step(frozen), whole);
  // With all parts 6 FLOPs per parameter of the language model, 4 without its weight gradients.
  const double all = model_flops_per_token(text).value;
  EXPECT_NEAR(
      (model_flops_per_token(run_of_model()).value - all) * 4096,
      3 * flops_of(calls_of(framework_work(first_shape(run_of_model()), ActionType::forward))).value / 2 -
          3 * flops_of(calls_of(framework_work(first_shape(text), ActionType::forward))).value / 2,
      1e6);
  EXPECT_LT(model_flops_per_token(projection_alone()).value, 0.72 * all);
}

TEST(FrameworkTower, OtherSoftwareIsRefusedInALine) {
  RunConfig config = run_of_model("qwen3-vl-8b", 1, 1);
  config.machine.software = "torchtitan-2025";
  frameworks::expect_refused(config, "software: found torchtitan-2025 with images_per_sequence 1");
}

}  // namespace
}  // namespace plumbline::framework_tower_test
