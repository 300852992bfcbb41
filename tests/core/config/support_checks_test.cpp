// Configurations that this build cannot execute, and which of them are predicted nevertheless.
#include "tests/core/config/reasons.hpp"

namespace plumbline::support_checks_test {
namespace {

using test::run_with;

RunConfig tiny(const std::string& keys) {
  return run_with("model=" + test::llama() + " " + keys);
}

constexpr const char* kEmulated = " backend=emulated hardware=h100-sxm-80gb";

TEST(SupportChecks, NameTheKey) {
  const std::string fp8 = "software=s fp8_format=hybrid ";  // other software's own
  const test::Refusal cases[] = {
      {"", ""},
      {"precision=fp32 pipeline_schedule=gpipe", ""},
      {"pipeline_schedule=dualpipe", ""},
      {"virtual_pipeline_chunks=2 pipeline_schedule=interleaved", ""},
      {"sequence_parallel=true", ""},
      {"zero_stage=3", ""},
      {"recompute_granularity=full recompute_num_layers=3", ""},
      {"backend=emulated hardware=h100-sxm-80gb", ""},
      {"backend=emulated", "hardware: missing"},
      {"expert_model_parallel_size=2", "expert_model_parallel_size: found"},
      {"precision=fp16", ""},
      {"precision=fp16 fp8_format=e4m3", "precision: found fp16 with fp8_format e4m3"},
      {"frozen=lora", ""},
      {"context_parallel_size=2", ""},
      {"context_parallel_size=2 cp_comm_type=all_gather", ""},
      {"context_parallel_size=2 cp_comm_type=all_gather backend=cuda", ""},
      {"context_parallel_size=2 attention_backend=unfused",
       "attention_backend: found unfused with context_parallel_size 2"},
      {"attention_backend=unfused", ""},
      {"context_parallel_size=2 attention_backend=unfused backend=emulated hardware=h100-sxm-80gb", ""},
      {"context_parallel_size=2 fp8_format=e4m3", ""},
      {"context_parallel_size=2 cp_comm_type=a2a", ""},
      {"context_parallel_size=2 cp_comm_type=a2a", "", [](RunConfig& c) { c.model.norms.qk = true; }},
      {"cp=4 seq_length=16 cp_comm_type=a2a+p2p hierarchical_context_parallel_sizes=2,2", ""},
  };
  for (const test::Refusal& c : cases) {
    SCOPED_TRACE(c.keys);
    test::expect_reason(why_unsupported(test::config_of(c, "model=" + test::llama())), c.reason);
  }
  for (const std::string key : {"fp8_recipe=mxfp8", "fp8_recipe=blockwise", "first_last_layers_bf16=true",
                                "fp8_dot_product_attention=true", "fp8_param_gather=true",
                                "disable_parameter_transpose_cache=true"}) {
    RunConfig config = tiny(fp8 + key);
    EXPECT_EQ(why_unpredictable(config), std::nullopt) << key;
    config.machine.software = "plumbline";
    test::expect_reason(why_unsupported(config), key.substr(0, key.find('=')) + ": found");
  }
  for (const char* keys : {"context_parallel_size=2 software=s", "frozen=lora software=s"})
    EXPECT_EQ(why_unpredictable(tiny(keys)), std::nullopt) << keys;
}

TEST(SupportChecks, OfLossScales) {
  const std::pair<const char*, const char*> cases[] = {
      {"precision=fp16 loss_scale=8", ""},
      {"precision=fp16 initial_loss_scale=8 min_loss_scale=8 loss_scale_window=3 hysteresis=1", ""},
      {"precision=bf16 loss_scale=8", "loss_scale: found 8 with bf16, expected auto"},
      {"precision=fp32 hysteresis=3", "hysteresis: found 3 with fp32, expected 2"},
      {"precision=fp16 loss_scale=8 loss_scale_window=3",
       "loss_scale_window: found 3 with a constant loss_scale, expected 1000"},
      {"precision=fp16 initial_loss_scale=8 min_loss_scale=9",
       "min_loss_scale: found 9, expected at most initial_loss_scale 8"},
  };
  for (const auto& [keys, reason] : cases) test::expect_reason(why_invalid(tiny(keys)), reason);
}

TEST(SupportChecks, OfDeterministicMode) {
  for (const std::string backend : {" backend=cpu", " backend=cuda", kEmulated}) {
    const RunConfig config = tiny("deterministic_mode=true" + backend);
    EXPECT_TRUE(config.numerics.deterministic_mode) << backend;
    EXPECT_EQ(why_invalid(config), std::nullopt) << backend;
  }
  EXPECT_FALSE(tiny("").numerics.deterministic_mode);
  test::expect_reason(
      why_invalid(tiny("software=s deterministic_mode=true")),
      "deterministic_mode: found true with software s, whose deterministic kernels are not predicted");
}

TEST(SupportChecks, WhatOnlyTheEmulatedBackendDoesIsPredictedOnNamedHardware) {
  const std::string key = "context_parallel_size=2 attention_backend=unfused";
  const std::string named = key + " hardware=v100-sxm-32gb";
  EXPECT_TRUE(why_unsupported(tiny(named)));
  EXPECT_EQ(why_unsupported(tiny(named + " backend=emulated")), std::nullopt);
  EXPECT_EQ(why_unpredictable(tiny(named)), std::nullopt);
  EXPECT_TRUE(why_unpredictable(tiny(key)));
}

}  // namespace
}  // namespace plumbline::support_checks_test
