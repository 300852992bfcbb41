// Keys whose value cannot matter are named, and no others.
#include "core/config_text/idle_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/config_text/load_config.hpp"

namespace plumbline::idle_keys_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Values = std::vector<std::pair<std::string, std::string>>;

RunConfig config_of(const Values& values) {
  Overrides overrides = {{"model", "qwen2.5-0.5b", "test"}};
  for (const auto& [key, value] : values) overrides.push_back({key, value, "test"});
  return load_run_config("", overrides);
}

struct NeedCase {
  const char* key;
  const char* value;
  Values needs;  // with these it has an effect
};

const NeedCase kCases[] = {
    {"cp_comm_type", "a2a", {{"context_parallel_size", "2"}}},
    {"cp_load_balance", "false", {{"context_parallel_size", "2"}}},
    {"expert_tensor_parallel_size", "1", {{"model", "mixtral-8x7b"}}},
    {"moe_token_dispatcher_type",
     "alltoall",
     {{"model", "mixtral-8x7b"}, {"expert_model_parallel_size", "2"}, {"data_parallel_size", "2"}}},
    {"moe_token_dispatcher_type", "alltoall", {{"software", "megatron-core"}}},
    {"moe_routing",
     "worst",
     {{"model", "mixtral-8x7b"}, {"expert_model_parallel_size", "2"}, {"data_parallel_size", "2"}}},
    {"sequence_parallel", "true", {{"tensor_model_parallel_size", "2"}}},
    {"tp_comm_overlap", "true", {{"tensor_model_parallel_size", "2"}}},
    {"tp_reduce_in_fp32", "false", {{"tensor_model_parallel_size", "2"}}},
    {"layer_distribution", "balanced", {{"pipeline_model_parallel_size", "2"}}},
    {"zero_bubble_memory", "0.5", {{"pipeline_schedule", "zb-auto"}}},
    {"zero_stage", "1", {{"data_parallel_size", "2"}}},
    {"zero_stage", "1", {{"context_parallel_size", "2"}}},
    {"overlap_p2p_comm", "true", {{"pipeline_model_parallel_size", "2"}}},
    {"overlap_grad_reduce", "false", {{"data_parallel_size", "2"}}},
    {"overlap_param_gather", "true", {{"data_parallel_size", "2"}, {"zero_stage", "1"}}},
    {"align_param_gather", "false", {{"pipeline_schedule", "interleaved"}, {"software", "megatron-core"}}},
    {"recompute_method", "block", {{"recompute_granularity", "full"}}},
    {"recompute_num_layers", "2", {{"recompute_granularity", "full"}}},
    {"deterministic_mode", "true", {{"backend", "cuda"}}},
    {"deterministic_mode", "true", {{"software", "megatron-core"}}},
    {"fp8_recipe", "tensorwise", {{"fp8_format", "e4m3"}}},
    {"fp8_margin", "2", {{"fp8_format", "e4m3"}}},
    {"fp8_margin", "2", {{"precision", "fp8"}}},
    {"fp8_amax_history_len", "16", {{"fp8_format", "hybrid"}}},
    {"fp8_param_gather", "true", {{"fp8_format", "hybrid"}}},
    {"disable_parameter_transpose_cache", "true", {{"fp8_format", "hybrid"}}},
    {"fp8_dot_product_attention", "true", {{"fp8_format", "hybrid"}}},
    {"first_last_layers_bf16", "true", {{"fp8_format", "hybrid"}}},
    {"first_last_layers_bf16", "true", {{"fp4_format", "e2m1"}}},
    {"num_layers_at_start_in_bf16", "2", {{"fp8_format", "hybrid"}, {"first_last_layers_bf16", "true"}}},
    {"num_layers_at_end_in_bf16", "2", {{"fp8_format", "hybrid"}, {"first_last_layers_bf16", "true"}}},
    {"weight_decay", "0.5", {}},
    {"lora_rank", "4", {{"frozen", "lora"}}},
    {"lora_targets", "all", {{"frozen", "lora"}}},
    {"lora_alpha", "8", {{"frozen", "lora"}}},
    {"lora_weights", "/adapters", {{"frozen", "lora"}}},
    {"ddp_bucket_size", "1000", {{"data_parallel_size", "2"}}},
    {"nccl_ub", "true", {{"backend", "cuda"}}},
    {"emulated_time_factor", "0.5", {{"backend", "emulated"}}},
    {"emulated_clock", "virtual", {{"backend", "emulated"}}},
};

TEST(IdleKeys, AreThoseThatNeedAnotherKey) {
  for (const NeedCase& each : kCases) {
    Values values = each.needs;
    values.emplace_back(each.key, each.value);
    EXPECT_THAT(idle_keys(config_of(values)), IsEmpty()) << each.key;
    if (each.needs.empty()) continue;
    const std::vector<std::string> lines = idle_keys(config_of({{each.key, each.value}}));
    ASSERT_EQ(lines.size(), 1U) << each.key;
    EXPECT_EQ(lines[0].rfind(std::string(each.key) + ": found " + each.value + ", without effect; needs ", 0),
              0U)
        << lines[0];
  }
}

TEST(IdleKeys, DependOnValuesToo) {
  EXPECT_THAT(idle_keys(config_of({})), IsEmpty());
  EXPECT_THAT(idle_keys(config_of({{"optimizer", "sgd"}, {"weight_decay", "0.5"}})),
              ElementsAre("weight_decay: found 0.5, without effect; needs optimizer adam, lion or muon"));
  EXPECT_THAT(idle_keys(config_of(
                  {{"fp8_format", "e4m3"}, {"fp8_recipe", "tensorwise"}, {"fp8_amax_history_len", "16"}})),
              ElementsAre("fp8_amax_history_len: found 16, without effect; needs fp8_format with fp8_recipe "
                          "delayed"));
  EXPECT_THAT(idle_keys(config_of({{"precision", "fp32"}, {"grad_dtype", "same"}})),
              ElementsAre("grad_dtype: found same, without effect; needs a precision of 16 bits"));
  EXPECT_THAT(idle_keys(config_of({{"grad_dtype", "same"}})), IsEmpty());
  EXPECT_THAT(idle_keys(config_of({{"precision", "fp32"}, {"cross_entropy_loss_fusion", "false"}})),
              ElementsAre(testing::HasSubstr("cross_entropy_loss_fusion: found false")));
  EXPECT_THAT(
      idle_keys(config_of(
          {{"precision", "fp32"}, {"tensor_model_parallel_size", "2"}, {"tp_reduce_in_fp32", "false"}})),
      ElementsAre(testing::HasSubstr("tp_reduce_in_fp32: found false, without effect; needs a precision")));
  EXPECT_THAT(idle_keys(config_of({{"moe_routing", "zipf:1"}})), IsEmpty());
  EXPECT_THAT(
      idle_keys(config_of({{"data_parallel_size", "2"}, {"zero_stage", "1"}, {"ddp_bucket_size", "1000"}})),
      ElementsAre(testing::HasSubstr("ddp_bucket_size")));
  EXPECT_THAT(idle_keys(config_of({{"zero_stage", "3"}, {"overlap_param_gather", "false"}})),
              ElementsAre(testing::HasSubstr("zero_stage"), testing::HasSubstr("overlap_param_gather")));
}

}  // namespace
}  // namespace plumbline::idle_keys_test
