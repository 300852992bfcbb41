// Conflicts of recomputed modules, one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig run_of(const char* model, const RecomputeModules& modules) {
  RunConfig config;
  config.model = *find_preset(model);
  config.recompute.granularity = Recompute::selective;
  config.recompute.modules = modules;
  return config;
}

TEST(RecomputeChecks, ModulesThatTheModelLacksAreRefusedInOneLine) {
  struct Case {
    const char* model;
    RecomputeModules modules;
    const char* reason;  // nullptr: accepted
  };
  const Case cases[] = {
      {"llama-3-8b", {.layernorm = true}, nullptr},
      {"llama-3-8b", {.core_attn = true, .layernorm = true, .mlp = true}, nullptr},
      {"deepseek-v3", {true, true, true, true, true, true, true}, nullptr},
      {"mixtral-8x7b", {.moe_act = true}, nullptr},
      {"llama-3-8b",
       {.moe_act = true},
       "recompute_modules: found moe_act with llama-3-8b, which has no experts"},
      {"llama-3-8b", {.moe = true}, "recompute_modules: found moe with llama-3-8b"},
      {"llama-3-8b", {.shared_experts = true}, "recompute_modules: found shared_experts with llama-3-8b"},
      {"llama-3-8b", {.mla_up_proj = true}, "recompute_modules: found mla_up_proj with llama-3-8b"},
      {"mixtral-8x7b", {.mlp = true}, "recompute_modules: found mlp with mixtral-8x7b, all of whose layers"},
      {"mixtral-8x7b", {.shared_experts = true}, "which has no shared expert"},
  };
  for (const Case& c : cases) {
    const std::string reason = why_invalid(run_of(c.model, c.modules)).value_or("accepted");
    EXPECT_THAT(reason, HasSubstr(c.reason == nullptr ? "accepted" : c.reason)) << to_string(c.modules);
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
  }
}

TEST(RecomputeChecks, WhatElseTheyDoNotGoTogetherWith) {
  const RunConfig config = run_of("llama-3-8b", {.layernorm = true, .mlp = true});
  const auto reason = [](const RunConfig& changed) { return why_invalid(changed).value_or("accepted"); };
  RunConfig other = config;
  other.recompute.granularity = Recompute::none;
  EXPECT_THAT(reason(other),
              HasSubstr("recompute_modules: found layernorm,mlp with recompute_granularity none, "
                        "expected selective"));
  other.recompute.granularity = Recompute::full;
  EXPECT_THAT(reason(other), HasSubstr("with recompute_granularity full"));
  other.recompute.modules = kCoreAttention;
  EXPECT_EQ(reason(other), "accepted");
  other = config;
  other.numerics.fp8.format = Fp8Format::hybrid;
  EXPECT_EQ(reason(other), "accepted");
  other = config;
  other.machine.software = "megatron-core";
  EXPECT_EQ(reason(other), "accepted");
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    other = config;
    other.machine.backend = backend;
    EXPECT_EQ(why_unsupported(other), std::nullopt);
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
}  // namespace plumbline
