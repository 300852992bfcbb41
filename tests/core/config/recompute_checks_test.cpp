// Conflicts of recomputed modules, one line each.
#include "tests/core/config/reasons.hpp"

namespace plumbline::recompute_checks_test {
namespace {

TEST(RecomputeChecks, WhatDoesNotGoTogetherIsRefusedInOneLine) {
  const std::vector<test::Refusal> cases = {
      {"recompute_modules=layernorm", ""},
      {"recompute_modules=core_attn,layernorm,mlp", ""},
      {"model=deepseek-v3 recompute_modules=core_attn,moe_act,layernorm,mla_up_proj,mlp,moe,shared_experts",
       ""},
      {"model=mixtral-8x7b recompute_modules=moe_act", ""},
      {"recompute_modules=moe_act", "recompute_modules: found moe_act with llama-3-8b, which has no experts"},
      {"recompute_modules=moe", "recompute_modules: found moe with llama-3-8b"},
      {"recompute_modules=shared_experts", "recompute_modules: found shared_experts with llama-3-8b"},
      {"recompute_modules=mla_up_proj", "recompute_modules: found mla_up_proj with llama-3-8b"},
      {"model=mixtral-8x7b recompute_modules=mlp",
       "recompute_modules: found mlp with mixtral-8x7b, all of whose layers"},
      {"model=mixtral-8x7b recompute_modules=shared_experts", "which has no shared expert"},
      {"recompute_modules=layernorm,mlp recompute_granularity=none",
       "recompute_modules: found layernorm,mlp with recompute_granularity none, expected selective"},
      {"recompute_modules=layernorm,mlp recompute_granularity=full", "with recompute_granularity full"},
      {"recompute_modules=core_attn recompute_granularity=full", ""},
      {"recompute_modules=layernorm,mlp fp8_format=hybrid", ""},
      {"recompute_modules=layernorm,mlp software=megatron-core", ""},
  };
  const std::string selective = "model=llama-3-8b recompute_granularity=selective ";
  test::expect_refusals(cases, selective);
  for (const std::string backend : {"cpu", "cuda"}) {
    EXPECT_EQ(
        why_unsupported(test::run_with(selective + "recompute_modules=layernorm,mlp backend=" + backend)),
        std::nullopt);
  }
}

TEST(RecomputeChecks, OnlySelectiveRecomputationHasModules) {
  RecomputeConfig config;
  EXPECT_EQ(config.selected(), RecomputeModules());
  config.granularity = Recompute::selective;
  EXPECT_EQ(config.selected(), kCoreAttention);
  config.granularity = Recompute::full;
  EXPECT_EQ(config.selected(), RecomputeModules());
}

}  // namespace
}  // namespace plumbline::recompute_checks_test
