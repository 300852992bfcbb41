// Memory of other frameworks' steps, as published.
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_memory_test {
namespace {

using namespace frameworks;

// Korthikanti et al. (arXiv:2205.05198) equations 1 to 4 and table 2, per layer and tensor rank.
TEST(FrameworkMemory, ActivationsOfALayerAsPublished) {
  struct Case {
    bool sequence_parallel;
    Recompute recompute;
    double sbh;     // × s·b·h
    double scores;  // × a·s²·b
  };
  constexpr double t = 4;
  for (const Case& c :
       {Case{false, Recompute::none, 10 + 24 / t, 5 / t}, Case{true, Recompute::none, 34 / t, 5 / t},
        Case{false, Recompute::selective, 10 + 24 / t, 0}, Case{true, Recompute::selective, 34 / t, 0},
        Case{true, Recompute::full, 2 / t, 0}, Case{false, Recompute::full, 2, 0}}) {
    RunConfig config = gpt("megatron-2022");
    config.parallel.sequence_parallel = c.sequence_parallel;
    config.recompute.granularity = c.recompute;
    const StageShape shape = first_shape(config);
    const double s = 1024, b = 4, h = 2048, a = 16;
    EXPECT_EQ(static_cast<double>(framework_layer_bytes(shape)),
              c.sbh * s * b * h + c.scores * a * s * s * b);
  }
}

// Software with fused attention may be configured without it.
TEST(FrameworkMemory, ScoresAreThereWhereAttentionIsUnfused) {
  RunConfig config = gpt("megatron-core-2026");
  const StageShape fused = first_shape(config);
  config.numerics.attention_backend = AttentionBackend::unfused;
  const StageShape shape = first_shape(config);
  EXPECT_FALSE(fused.attention.unfused);
  const std::int64_t scores = shape.stream.tokens * shape.stream.seq * shape.attention.heads;
  EXPECT_EQ(framework_layer_bytes(shape),
            framework_layer_bytes(fused) - 4 * shape.stream.tokens * shape.attention.heads + 2 * scores);
}

TEST(FrameworkMemory, ShardsStatesAsZeroDoes) {
  RunConfig config = gpt("megatron-2022");
  config.parallel.world_size = 4 * 2 * 8;  // 8 replicas
  double whole = 0;
  for (const auto& [stage, expected] :
       {std::pair{0, 18.0}, {1, 6 + 12.0 / 8}, {3, 18.0 / 8}}) {  // Megatron has no stage 2
    config.parallel.dp.zero_stage = stage;
    const MemoryBreakdown held = predicted(config).memory.ranks.front().held;
    const double states = static_cast<double>(
        (held[Category::parameters] + held[Category::gradients] + held[Category::optimizer]).value);
    if (stage == 0) whole = states;
    EXPECT_NEAR(states / whole, expected / 18, 1e-3) << "ZeRO " << stage;
  }
}

// Compiled losses read and write 16-bit logits: no fp32 copies of them are held.
TEST(FrameworkMemory, CompiledLossesHoldLogitsOnce) {
  RunConfig config = llama("torchtitan-compile", 1, 1);
  const double copies = static_cast<double>(predicted(config).memory.peak.value);
  config.machine.software = "torchtitan-2025";
  const double logits = 4 * 1024 * 128256.0;
  EXPECT_GT(copies - static_cast<double>(predicted(config).memory.peak.value), 6 * logits);
}

}  // namespace
}  // namespace plumbline::framework_memory_test
