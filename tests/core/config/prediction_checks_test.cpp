// MTP modules: their keys, and their conflicts, one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig run_of(const char* model) {
  RunConfig config;
  config.model = *find_preset(model);
  config.model.prediction_modules = 1;
  config.batch.seq_length = 2048;
  return config;
}

TEST(PredictionChecks, WhatModulesDoNotGoTogetherWith) {
  struct Case {
    const char* model;
    std::function<void(RunConfig&)> change;
    const char* reason;  // nullptr: accepted
  };
  const Case cases[] = {
      {"llama-3-8b", [](RunConfig&) {}, nullptr},
      {"deepseek-v3", [](RunConfig& c) { c.recompute.granularity = Recompute::full; }, nullptr},
      {"mixtral-8x7b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 8;
         c.parallel.sequence_parallel = true;
       },
       nullptr},
      {"gpt2-124m", [](RunConfig& c) { c.batch.seq_length = 512; }, "whose norms are no plain RMSNorm"},
      {"llama-3-8b", [](RunConfig& c) { c.batch.seq_length = 1; }, "fewer modules than tokens"},
      {"llama-3-8b", [](RunConfig& c) { c.batch.prefix_length = 3; }, "with a prefix_length"},
      {"llama-3-8b", [](RunConfig& c) { c.distillation.teacher = c.model; }, "with a teacher"},
      {"llama-3-8b", [](RunConfig& c) { c.parallel.vocab_parallel = VocabPasses::two_barriers; },
       "with vocab_parallel"},
      {"llama-3-8b", [](RunConfig& c) { c.parallel.context = c.parallel.world_size = 2; }, nullptr},
      {"llama-3-8b",
       [](RunConfig& c) {
         c.parallel.tensor = c.parallel.world_size = 2;
         c.parallel.sequence_parallel = c.parallel.tp_comm_overlap = true;
       },
       nullptr},
      {"llama-3-8b", [](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; }, nullptr},
      {"llama-3-8b", [](RunConfig& c) { c.numerics.hidden_dropout = 0.1; }, nullptr},
      {"llama-3-8b", [](RunConfig& c) { c.parallel.tensor = c.parallel.world_size = 16; },
       "with tensor_model_parallel_size 16"},
      {"llama-3-8b",
       [](RunConfig& c) {
         c.recompute.granularity = Recompute::selective;
         c.recompute.modules.mlp = true;
       },
       nullptr},
  };
  for (const Case& c : cases) {
    RunConfig config = run_of(c.model);
    c.change(config);
    const std::string reason = why_invalid(config).value_or("accepted");
    EXPECT_THAT(reason, HasSubstr(c.reason == nullptr ? "accepted" : c.reason));
    EXPECT_THAT(reason, Not(HasSubstr("\n")));
    config.machine.software = "megatron-core-2024";  // prices them as published runs do
    EXPECT_THAT(why_invalid(config).value_or("accepted"), Not(HasSubstr("mtp_num_layers: ")));
  }
}

TEST(PredictionChecks, KeysSayModulesAndAConfigurationOfTheModelDoesNot) {
  const RunConfig config =
      load_run_config("deepseek-v3", {{"mtp_loss_scaling_factor", "0.3"}, {"mtp_num_layers", "2"}});
  EXPECT_EQ(config.model.prediction_modules, 2);
  EXPECT_EQ(config.prediction.loss_scaling_factor, 0.3);
  EXPECT_EQ(load_run_config("deepseek-v3", {}).model.prediction_modules, 0);
  EXPECT_THROW(load_run_config("deepseek-v3", {{"mtp_num_layers", "-1"}}), InputError);
  const RunConfig without = load_run_config("llama-3-8b", {{"mtp_loss_scaling_factor", "0.3"}});
  EXPECT_THAT(why_invalid(without).value_or("accepted"),
              HasSubstr("mtp_loss_scaling_factor: found 0.3 without mtp_num_layers"));
}

}  // namespace
}  // namespace plumbline
