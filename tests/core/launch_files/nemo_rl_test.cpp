// Configurations of NeMo-RL: inheritance, references, and the keys that follow.
#include "core/launch_files/reinforcement/nemo_rl.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/core/launch_files/launch_settings_of.hpp"

namespace plumbline::nemo_rl_test {
namespace {

using test::expect_settings;
using testing::HasSubstr;

constexpr const char* kBase = R"(
grpo:
  num_prompts_per_step: 32
  num_generations_per_prompt: 16
  max_rollout_turns: 1
  async_grpo:
    enabled: false
loss_fn:
  reference_policy_kl_penalty: 0.01
  reference_policy_kl_type: "k3"
  token_level_loss: true
policy:
  model_name: "Qwen/Qwen2.5-1.5B"
  train_global_batch_size: 512
  train_micro_batch_size: 4
  max_total_sequence_length: 512
  precision: "bfloat16"
  dtensor_cfg: {enabled: true, tensor_parallel_size: 1, activation_checkpointing: false}
  megatron_cfg:
    enabled: false
    tensor_model_parallel_size: 1
    pipeline_model_parallel_size: 1
    expert_model_parallel_size: 1
    sequence_parallel: false
    activation_checkpointing: false
    num_layers_in_first_pipeline_stage: null
    num_layers_in_last_pipeline_stage: null
  sequence_packing:
    enabled: True
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
  generation:
    backend: "vllm"
    max_new_tokens: ${policy.max_total_sequence_length}
    vllm_cfg: {tensor_parallel_size: 1, gpu_memory_utilization: 0.6, precision: "${policy.precision}"}
    colocated:
      enabled: true
      resources: {gpus_per_node: null, num_nodes: null}
data: {shuffle: true}
cluster: {gpus_per_node: 1, num_nodes: 1}
)";

constexpr const char* kRecipe = R"(
defaults: ../base.yaml
policy:
  model_name: Qwen/Qwen3-32B
  train_micro_batch_size: 1
  max_total_sequence_length: 4096
  dtensor_cfg: {enabled: false}
  megatron_cfg:
    enabled: true
    tensor_model_parallel_size: 4
    pipeline_model_parallel_size: 4
    sequence_parallel: true
    activation_checkpointing: true
    num_layers_in_first_pipeline_stage: 15
    num_layers_in_last_pipeline_stage: 15
  generation:
    colocated:
      enabled: false
      resources: {gpus_per_node: 8, num_nodes: 4}
    vllm_cfg: {tensor_parallel_size: 4}
grpo:
  async_grpo:
    enabled: true
cluster: {gpus_per_node: 8, num_nodes: 8}
)";

std::optional<std::string> beside(const std::string& path) {
  if (path == "../base.yaml" || path == "one/../base.yaml") return kBase;
  if (path == "one/recipe.yaml") return kRecipe;
  return std::nullopt;
}

TEST(NemoRl, ReadsAFileOfItsOwn) {
  const auto file = read_launch_file(kBase, "base.yaml", beside);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->framework, "NeMo-RL");
  expect_settings(*file, {{"model", "qwen2.5-1.5b"},
                          {"task", "grpo"},
                          {"software", "torchtitan"},
                          {"zero_stage", "3"},
                          {"packed_sequence", "true"},
                          {"seq_length", "512"},
                          {"prompt_length", "64"},
                          {"max_new_tokens", "448"},
                          {"kl_loss_coef", "0.01"},
                          {"rollout_placement", "nothing"},
                          {"world_size", "1"}});
}

TEST(NemoRl, ReadsARecipeOverItsDefaults) {
  const auto file = read_launch_file(kRecipe, "recipe.yaml", beside);
  ASSERT_TRUE(file);
  expect_settings(*file, {{"model", "qwen3-32b"},
                          {"num_prompts_per_step", "32"},
                          {"software", "megatron-core"},
                          {"tensor_model_parallel_size", "4"},
                          {"sequence_parallel", "true"},
                          {"recompute_granularity", "full"},
                          {"layer_distribution", "15,*,15"},
                          {"zero_stage", "1"},
                          {"micro_batch_size", "1"},
                          {"max_new_tokens", "3584"},
                          {"rollout_software", "vllm"},
                          {"rollout_tensor_model_parallel_size", "4"},
                          {"gpu_memory_utilization", "0.6"},
                          {"rollout_placement", "one_step_off"},
                          {"rollout_world_size", "32"},
                          {"world_size", "32"}});
  const auto named = [](const std::vector<LaunchRemark>& remarks, const std::string& name) {
    return std::any_of(remarks.begin(), remarks.end(),
                       [&](const LaunchRemark& each) { return each.name == name; });
  };
  EXPECT_TRUE(named(file->without_effect, "data.shuffle"));
  EXPECT_TRUE(named(file->approximated, "policy.sequence_packing.train_mb_tokens"));
}

/// Whatever keys it changes; paths are from the folder of the file that has them.
TEST(NemoRl, ReadsAFileDerivedFromARecipe) {
  const auto file = read_launch_file(
      "defaults: one/recipe.yaml\nlogger: {wandb_enabled: False}\n"
      "policy: {generation: {backend: trtllm}, megatron_cfg: {sequence_parallel: \"True\"}}\n",
      "derived.yaml", beside);
  ASSERT_TRUE(file);
  expect_settings(*file, {{"model", "qwen3-32b"},
                          {"num_prompts_per_step", "32"},
                          {"sequence_parallel", "true"},
                          {"rollout_software", "tensorrt-llm"}});
  ASSERT_TRUE(read_launch_file("defaults: one/recipe.yaml\nlogger: {wandb_enabled: False}\n", "derived.yaml",
                               beside));
  for (const auto& [name, preset] :
       {std::pair("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16", "nemotron-3-nano-30b-a3b"),
        std::pair("google/gemma-3-27b-it", "gemma-3-27b")}) {
    const auto named = read_launch_file(
        fmt::format("defaults: one/recipe.yaml\npolicy: {{model_name: {}}}\n", name), "derived.yaml", beside);
    expect_settings(*named, {{"model", preset}});
  }
  const auto packed = read_launch_file(kBase, "base.yaml", beside);
  expect_settings(*packed, {{"micro_batch_size", "1"}, {"rl_framework", "nemo-rl"}});
}

TEST(NemoRl, RefusesInOneLine) {
  const std::pair<std::string, const char*> refusals[] = {
      {"defaults: ../lost.yaml\npolicy: {}\ngrpo: {a: 1}\n", "defaults: found ../lost.yaml, expected a file"},
  };
  for (const auto& [text, line] : refusals) {
    try {
      read_launch_file(text, "a.yaml", beside);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(line));
    }
  }
}

/// Files that name each other do not recurse for ever, and references to themselves end.
TEST(NemoRl, EndsOnCircles) {
  const auto itself = [](const std::string&) -> std::optional<std::string> {
    return "defaults: a.yaml\npolicy: {}\ngrpo: {}\n";
  };
  EXPECT_THROW(read_launch_file("defaults: a.yaml\npolicy: {}\ngrpo: {}\n", "a.yaml", itself), InputError);
  const auto file = read_launch_file(
      "policy: {max_total_sequence_length: \"${policy.max_total_sequence_length}\"}\ngrpo: {a: 1}\n",
      "a.yaml", beside);
  ASSERT_TRUE(file);
}

}  // namespace
}  // namespace plumbline::nemo_rl_test
