// Memory saved and computation added by selective recomputation by module, by hand
// (bench/training/recompute.md).
#include <gtest/gtest.h>

#include <string_view>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::recomputed_modules_test {
namespace {

struct Case {
  RecomputeModules modules;
  std::int64_t freed;  // bytes of a layer that its forward does not keep
  std::int64_t again;  // FLOPs that its backward has more; -1: some
};

void expect(const RunConfig& base, bool experts, const Case& c) {
  const auto layer = [&](const RecomputeModules& modules) {
    RunConfig config = base;
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = modules;
    StageShape shape = stage_shapes(config, 2)[0];
    shape.place.first = false;
    shape.layers = 1;
    shape.kinds = {{1, {.dense = base.model.mixture && !experts}}};
    return shape;
  };
  const auto kept = [](const StageShape& shape, ActionType type) {
    return action_profile(shape, type).net[Category::activations].value;
  };
  const StageShape plain = layer({});
  const StageShape with = layer(c.modules);
  EXPECT_EQ(kept(plain, ActionType::forward) - kept(with, ActionType::forward), c.freed)
      << to_string(c.modules);
  // B frees everything that F leaves; x came before F.
  EXPECT_EQ(kept(with, ActionType::forward) + kept(with, ActionType::backward),
            kept(plain, ActionType::forward) + kept(plain, ActionType::backward))
      << to_string(c.modules);
  const StageFlops before = stage_flops(plain);
  const StageFlops after = stage_flops(with);
  EXPECT_EQ(before.forward.value, after.forward.value);
  const double more = after.backward.value - before.backward.value;
  if (c.again < 0) {
    EXPECT_GT(more, 0) << to_string(c.modules);
  } else {
    EXPECT_EQ(more, static_cast<double>(c.again)) << to_string(c.modules);
  }
}

// fp32: T = 4, h = 8, q = 8, two heads, F = 16, f = 32.
TEST(RecomputedModules, OfADenseLayer) {
  constexpr std::int64_t norm = 4 * 8 * 4 + 4 * 4;
  constexpr std::int64_t attention = 4 * 8 * 4 + 2 * 4 * 4;
  constexpr std::int64_t mlp = 4 * 32 * 4 + 4 * 16 * 4;
  const Case cases[] = {{{.core_attn = true}, attention, -1},
                        {{.layernorm = true}, 2 * norm, 0},
                        {{.mlp = true}, mlp, 2 * 4 * 32 * 8},
                        {{.layernorm = true, .mlp = true}, 2 * norm + mlp, 2 * 4 * 32 * 8}};
  for (const Case& c : cases) expect(sample::tiny_qwen2(), false, c);
}

// bf16, T = 128 tokens of DeepSeek-V3: h = 7168, 128 heads of 128 + 64 for queries and keys and 128 for
// values, cq = 1536, ck = 512; dense F = 18432; 256 experts of F = 2048, 8 of them for a token, and one
// shared.
TEST(RecomputedModules, OfLatentAttentionAndExperts) {
  RunConfig config;
  config.model = *find_preset("deepseek-v3");
  config.batch.seq_length = 128;
  constexpr std::int64_t T = 128;
  constexpr std::int64_t rows = T * 8;
  constexpr std::int64_t qkv = T * 128 * (192 + 192 + 128) * 2;
  constexpr std::int64_t shared = T * 3 * 2048 * 2;
  constexpr std::int64_t activation = rows * 2048 * 2;
  constexpr std::int64_t routing = T * 256 * 4 + 4 * rows * 4;
  constexpr std::int64_t up = 2 * T * 128 * (192 * 1536 + (128 + 128) * 512);
  constexpr std::int64_t shared_fc1 = 2 * T * 4096 * 7168;
  constexpr std::int64_t moe = 2 * T * 256 * 7168 + 2 * rows * 4096 * 7168 + shared_fc1;
  const Case of_experts[] = {
      {{.mla_up_proj = true}, qkv, up},
      {{.moe_act = true}, activation, 0},
      {{.shared_experts = true}, shared, shared_fc1},
      {{.moe = true}, routing + 3 * activation + shared, moe},
      {{.moe_act = true, .moe = true, .shared_experts = true}, routing + 3 * activation + shared, moe},
      {{.mlp = true}, 0, 0}};
  for (const Case& c : of_experts) expect(config, true, c);
  const Case of_dense[] = {{{.mlp = true}, T * 3 * 18432 * 2, 2 * T * 2 * 18432 * 7168},
                           {{.moe_act = true, .moe = true, .shared_experts = true}, 0, 0}};
  for (const Case& c : of_dense) expect(config, false, c);
}

/// Bytes of a layer that its forward does not keep once `modules` are recomputed, in bf16.
std::int64_t freed(const char* model, const char* software, const RecomputeModules& modules, bool experts) {
  const auto kept = [&](const RecomputeModules& recomputed) {
    RunConfig config;
    config.model = *find_preset(model);
    config.batch.seq_length = 128;
    config.machine.software = software;
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = recomputed;
    StageShape shape = stage_shapes(config, 2)[0];
    shape.place.first = false;
    shape.layers = 1;
    shape.kinds = {{1, {.dense = config.model.mixture && !experts}}};
    const bool own = std::string_view(software) == "plumbline";
    if (!own) return framework_layer_bytes(shape.like(shape.kinds[0].kind));
    return action_profile(shape, ActionType::forward).net[Category::activations].value;
  };
  return kept({}) - kept(modules);
}

// A module is the same part of a layer in our step, executed to the byte by recompute_step_test, and in the
// prediction of Megatron-Core. 128 tokens, 1024 rows of experts.
TEST(RecomputedModules, AreMegatronCores) {
  // Statistics of norms are not counted there.
  constexpr std::int64_t norms = -2 * 128 * 4;
  // Megatron keeps the experts' rows, which our step makes again, and a routing map in place of our choices.
  const auto moe = [](std::int64_t hidden, std::int64_t experts) {
    return 1024 * hidden * 2 + 8 * 128 * experts - (128 * experts * 4 + 4 * 1024 * 4);
  };
  struct Same {
    const char* model;
    bool experts;
    RecomputeModules modules;
    std::int64_t more;  // bytes that Megatron-Core frees besides
  };
  const Same cases[] = {
      {"llama-3-8b", false, {.layernorm = true}, norms},
      {"llama-3-8b", false, {.mlp = true}, 0},
      {"gpt3-175b", false, {.mlp = true}, 0},
      {"deepseek-v3", false, {.mlp = true}, 0},
      {"deepseek-v3", false, {.moe = true}, 0},
      {"deepseek-v3", true, {.mlp = true}, 0},
      {"deepseek-v3", true, {.layernorm = true}, norms},
      {"deepseek-v3", true, {.mla_up_proj = true}, 0},
      {"deepseek-v3", true, {.moe_act = true}, 0},
      {"deepseek-v3", true, {.shared_experts = true}, 0},
      {"deepseek-v3", true, {.moe = true}, moe(7168, 256)},
      {"qwen3-30b-a3b", true, {.moe_act = true}, 0},
      {"qwen3-30b-a3b", true, {.moe = true}, moe(2048, 128)},
  };
  for (const Same& c : cases) {
    EXPECT_EQ(freed(c.model, "megatron-core", c.modules, c.experts),
              freed(c.model, "plumbline", c.modules, c.experts) + c.more)
        << c.model << ' ' << to_string(c.modules);
  }
}

}  // namespace
}  // namespace plumbline::recomputed_modules_test
