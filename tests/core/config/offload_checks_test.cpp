// Conflicts of activation offloading, one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig run_of(const char* model) {
  RunConfig config;
  config.model = *find_preset(model);
  config.offload.num_layers = 2;
  return config;
}

TEST(OffloadChecks, WhatDoesNotGoWithItIsRefusedInOneLine) {
  struct Case {
    const char* name;
    const char* model;
    void (*change)(RunConfig& config);
    const char* reason;  // nullptr: accepted
  };
  const Case cases[] = {
      {"plain", "llama-3-8b", [](RunConfig&) {}, nullptr},
      {"none", "llama-3-8b",
       [](RunConfig& c) {
         c.offload.num_layers = 0;
         c.recompute.granularity = Recompute::full;
       },
       nullptr},
      {"selective", "llama-3-8b", [](RunConfig& c) { c.recompute.granularity = Recompute::selective; },
       nullptr},
      {"all but one", "llama-3-8b", [](RunConfig& c) { c.offload.num_layers = 31; }, nullptr},
      {"experts", "mixtral-8x7b", [](RunConfig&) {}, nullptr},
      {"all layers", "llama-3-8b", [](RunConfig& c) { c.offload.num_layers = 32; },
       "cpu_offloading_num_layers: found 32 with the 32 layers of llama-3-8b, expected fewer"},
      {"full recomputation", "llama-3-8b", [](RunConfig& c) { c.recompute.granularity = Recompute::full; },
       "cpu_offloading_num_layers: found 2 with recompute_granularity full"},
      {"fp8", "llama-3-8b", [](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; }, nullptr},
      {"other software", "llama-3-8b", [](RunConfig& c) { c.machine.software = "megatron-core"; }, nullptr},
      {"other software with stages", "llama-3-8b",
       [](RunConfig& c) {
         c.machine.software = "megatron-core";
         c.parallel.world_size = c.parallel.pipeline = c.batch.global_batch_size = 2;
       },
       "cpu_offloading_num_layers: found 2 with pipeline_model_parallel_size 2"},
      {"a teacher", "llama-3-8b", [](RunConfig& c) { c.distillation.teacher = c.model; }, "with a teacher"},
      {"experts with a capacity", "mixtral-8x7b", [](RunConfig& c) { c.mixture.capacity_factor = 1; },
       nullptr},
      {"experts over ranks", "mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.world_size = 2;
         c.parallel.expert = 2;
         c.batch.global_batch_size = 2;
       },
       nullptr},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of(c.model);
    c.change(config);
    const std::string reason = why_invalid(config).value_or("accepted");
    EXPECT_THAT(reason, HasSubstr(c.reason == nullptr ? "accepted" : c.reason)) << c.name;
    EXPECT_THAT(reason, Not(HasSubstr("\n"))) << c.name;
  }
}

TEST(OffloadChecks, ArePartOfWhyInvalid) {
  RunConfig config = run_of("llama-3-8b");
  EXPECT_EQ(why_invalid(config), std::nullopt);
  config.recompute.granularity = Recompute::full;
  EXPECT_THAT(why_invalid(config).value_or(""), HasSubstr("cpu_offloading_num_layers"));
}

}  // namespace
}  // namespace plumbline
