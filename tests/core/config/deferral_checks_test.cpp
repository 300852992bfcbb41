// Conflicts of deferred output-layer weight gradients, one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;

TEST(DeferralChecks, WhatDoesNotGoWithItIsRefusedInOneLine) {
  struct Case {
    const char* name;
    void (*change)(RunConfig& config);
    const char* reason;  // nullptr: accepted
  };
  const Case cases[] = {
      {"1f1b", [](RunConfig&) {}, nullptr},
      {"interleaved",
       [](RunConfig& c) {
         c.parallel.schedule = "interleaved";
         c.parallel.virtual_chunks = 2;
       },
       nullptr},
      {"gpipe and ZeRO 3",
       [](RunConfig& c) {
         c.parallel.schedule = "gpipe";
         c.parallel.zero_stage = 3;
       },
       nullptr},
      {"one rank", [](RunConfig& c) { c.parallel.pipeline = c.parallel.world_size = 1; },
       "found true with one pipeline rank, which has no bubble to compute them in; expected false"},
      {"a split backward", [](RunConfig& c) { c.parallel.schedule = "zb-h1"; },
       "found true with pipeline_schedule zb-h1, expected false, or one whose backwards are whole"},
      {"a file", [](RunConfig& c) { c.parallel.schedule = "mine.csv"; }, "pipeline_schedule mine.csv"},
      {"a split vocabulary", [](RunConfig& c) { c.parallel.vocab_parallel = VocabPasses::one_barrier; },
       "found true with vocab_parallel"},
      {"a teacher", [](RunConfig& c) { c.distillation.teacher = c.model; }, "found true with a teacher"},
      {"further tokens", [](RunConfig& c) { c.model.prediction_modules = 1; }, nullptr},
      {"other software", [](RunConfig& c) { c.machine.software = "megatron-core"; },
       "found true with software megatron-core"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RunConfig config;
    config.model = *find_preset("llama-3-8b");
    config.parallel.world_size = config.parallel.pipeline = 4;
    config.batch.global_batch_size = 8;
    config.parallel.defer_embedding_wgrad_compute = true;
    c.change(config);
    const auto reason = why_invalid(config);
    if (c.reason == nullptr) {
      EXPECT_EQ(reason.value_or(""), "");
      continue;
    }
    ASSERT_TRUE(reason);
    EXPECT_THAT(*reason, HasSubstr("defer_embedding_wgrad_compute: "));
    EXPECT_THAT(*reason, HasSubstr(c.reason));
    EXPECT_EQ(reason->find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace plumbline
