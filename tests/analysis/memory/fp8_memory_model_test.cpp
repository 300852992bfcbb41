// FP8 linear layers (bench/training/fp8.md): memory of ranks, compared with 16 bits.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/memory_model.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::fp8_memory_model_test {
namespace {

using enum ActionType;
constexpr Category kParameters = Category::parameters;
constexpr Category kActivations = Category::activations;
constexpr Category kWorkspace = Category::workspace;

// Two layers: 24 slots; with both weights 2·2·2560 = 10240 bytes.
TEST(Fp8MemoryModel, HeldForTheWholeRun) {
  struct Case {
    const char* name;
    Fp8Recipe recipe;
    std::int64_t history;
    int zero;
    std::int64_t parameters, workspace;
  };
  constexpr Case kCases[] = {
      {"delayed", Fp8Recipe::delayed, 1024, 0, 10240, 24 * (3 + 1024) * 4},
      {"delayed, newest value alone", Fp8Recipe::delayed, 1, 2, 10240, 24 * 4 * 4},
      {"tensorwise: no history", Fp8Recipe::tensorwise, 1024, 1, 10240, 24 * 3 * 4},
      {"ZeRO 3: no weights", Fp8Recipe::delayed, 16, 3, 0, 24 * 19 * 4},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = sample::tiny_hybrid();
    config.parallel.world_size = 2;
    config.parallel.dp.zero_stage = c.zero;
    config.numerics.fp8.recipe = c.recipe;
    config.numerics.fp8.amax_history_len = c.history;
    RunConfig storage = config;
    storage.numerics.fp8.format = Fp8Format::none;
    MemoryBreakdown expected = held_bytes(stage_shapes(storage, 1)[0], storage);
    expected[kParameters].value += c.parameters;
    expected[kWorkspace].value += c.workspace;
    EXPECT_EQ(held_bytes(stage_shapes(config, 1)[0], config), expected);
  }
}

// Each of the two ranks has two of the four layers, in two stages.
TEST(Fp8MemoryModel, EveryStageOfARankCounts) {
  RunConfig config = sample::tiny_hybrid();
  config.model.layers = 4;
  config.parallel.world_size = config.parallel.pipeline = 2;
  config.numerics.fp8.amax_history_len = 1;
  Schedule schedule;
  schedule.ranks = 2;
  schedule.stages = 4;
  schedule.rank_of_stage = {0, 1, 1, 0};
  schedule.actions.resize(2);
  const MemoryPrediction hybrid = predict_memory(config, schedule);
  config.numerics.fp8.format = Fp8Format::none;
  const MemoryPrediction none = predict_memory(config, schedule);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    MemoryBreakdown expected = none.ranks[rank].held;
    expected[kParameters].value += 2 * 2 * 2560;
    expected[kWorkspace].value += 24 * 4 * 4;
    EXPECT_EQ(hybrid.ranks[rank].held, expected) << rank;
  }
}

TEST(Fp8MemoryModel, ATeacherStaysInTheStorageType) {
  RunConfig config = sample::tiny_hybrid();
  config.distillation.teacher = config.model;
  RunConfig storage = config;
  storage.numerics.fp8.format = Fp8Format::none;
  const Schedule schedule = sample::one_rank(1);
  const std::vector<StageShape> teacher = teacher_shapes(config, schedule);
  const std::vector<StageShape> same = teacher_shapes(storage, schedule);
  EXPECT_TRUE(stage_shapes(config, schedule)[0].numerics.fp8);
  EXPECT_EQ(action_profile(teacher[0], teacher_forward).peak, action_profile(same[0], teacher_forward).peak);
  EXPECT_EQ(held_bytes(stage_shapes(config, schedule), config, teacher)[Category::teacher],
            held_bytes(stage_shapes(storage, schedule), storage, same)[Category::teacher]);
}

// The two norm outputs (512 each) and the activation output (1024) halve, out of a layer's 7680 + 512 kept
// bytes in bf16. Quantized tensors do not depend on the format.
TEST(Fp8MemoryModel, AgainstBf16) {
  RunConfig config = sample::tiny_hybrid();
  const auto kept = [&](Fp8Format format) {
    config.numerics.fp8.format = format;
    return action_profile(stage_shapes(config, 2)[1], forward).net[kActivations].value;
  };
  EXPECT_EQ(kept(Fp8Format::none) - kept(Fp8Format::hybrid), 256 + 256 + 512);
  EXPECT_EQ(kept(Fp8Format::e4m3), kept(Fp8Format::hybrid));
}

}  // namespace
}  // namespace plumbline::fp8_memory_model_test
