// MTP modules: their keys, and their conflicts, one line each.
#include "core/base/error.hpp"
#include "tests/core/config/reasons.hpp"

namespace plumbline::prediction_checks_test {
namespace {

using test::run_with;

TEST(PredictionChecks, WhatModulesDoNotGoTogetherWith) {
  const std::vector<test::Refusal> cases = {
      {"", ""},
      {"model=deepseek-v3 recompute_granularity=full", ""},
      {"model=mixtral-8x7b tp=8 world_size=8 sequence_parallel=true", ""},
      {"model=gpt2-124m seq_length=512", "whose norms are no plain RMSNorm"},
      {"seq_length=1", "fewer modules than tokens"},
      {"prefix_length=3", "with a prefix_length"},
      {"teacher=llama-3-8b", "with a teacher"},
      {"vocab_parallel=vocab-1", "with vocab_parallel"},
      {"cp=2 world_size=2", ""},
      {"tp=2 world_size=2 sequence_parallel=true tp_comm_overlap=true", ""},
      {"fp8_format=hybrid", ""},
      {"hidden_dropout=0.1", ""},
      {"tp=16 world_size=16", "with tensor_model_parallel_size 16"},
      {"recompute_granularity=selective recompute_modules=core_attn,mlp", ""},
  };
  const std::string plain = "model=llama-3-8b world_size=1 seq_length=2048 mtp_num_layers=1";
  test::expect_refusals(cases, plain);
  for (const test::Refusal& c : cases) {  // priced as published runs do
    RunConfig config = test::config_of(c, plain);
    config.machine.software = "megatron-core-2024";
    EXPECT_THAT(why_invalid(config).value_or(""), testing::Not(testing::HasSubstr("mtp_num_layers: ")));
  }
}

TEST(PredictionChecks, KeysSayModulesAndAConfigurationOfTheModelDoesNot) {
  const RunConfig config = run_with("model=deepseek-v3 mtp_loss_scaling_factor=0.3 mtp_num_layers=2");
  EXPECT_EQ(config.model.prediction_modules, 2);
  EXPECT_EQ(config.prediction.loss_scaling_factor, 0.3);
  EXPECT_EQ(run_with("model=deepseek-v3").model.prediction_modules, 0);
  EXPECT_THROW(run_with("model=deepseek-v3 mtp_num_layers=-1"), InputError);
  test::expect_reason(why_invalid(run_with("model=llama-3-8b mtp_loss_scaling_factor=0.3")),
                      "mtp_loss_scaling_factor: found 0.3 without mtp_num_layers");
}

}  // namespace
}  // namespace plumbline::prediction_checks_test
