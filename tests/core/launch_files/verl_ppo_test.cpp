// PPO and GRPO of verl: the keys that follow from a script's overrides and from a file.
#include "core/launch_files/reinforcement/verl_ppo.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/core/launch_files/launch_settings_of.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::verl_ppo_test {
namespace {

using test::expect_settings;
using test::names;
using testing::HasSubstr;
using Settings = std::map<std::string, std::string>;

/// A script of verl with these overrides behind a model of 7B.
std::string script(const std::string& overrides, const char* program = "verl.trainer.main_ppo") {
  return fmt::format(
      "python3 -m {} actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct trainer.n_gpus_per_node=8 {}\n",
      program, overrides);
}

LaunchFile read(const std::string& text, const char* name = "run.sh") {
  const auto file = read_launch_file(text, name);
  EXPECT_TRUE(file);
  return file.value_or(LaunchFile());
}

/// Overrides, and what they say beside verl's defaults (verl/trainer/config/ppo_trainer.yaml).
const std::pair<const char*, Settings> kScripts[] = {
    {"",
     {{"model", "qwen2.5-7b"},
      {"task", "ppo"},
      {"software", "verl"},
      {"zero_stage", "3"},
      {"precision", "bf16"},
      {"world_size", "8"},
      {"num_prompts_per_step", "1024"},
      {"num_generations_per_prompt", "1"},
      {"global_batch_size", "256"},
      {"micro_batch_size", "1"},
      {"prompt_length", "512"},
      {"max_new_tokens", "512"},
      {"seq_length", "1024"},
      {"kl_loss_coef", "0"},
      {"recompute_granularity", "full"},
      {"rollout_software", "vllm"},
      {"rollout_tensor_model_parallel_size", "2"},
      {"gpu_memory_utilization", "0.5"},
      {"rollout_placement", "resident"},
      {"rl_framework", "verl"},
      {"clip_grad", "1.0"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=5 data.train_batch_size=64 "
     "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
     {{"task", "grpo"},
      {"num_prompts_per_step", "64"},
      {"num_generations_per_prompt", "5"},
      {"global_batch_size", "160"},
      {"micro_batch_size", "4"}}},
    {"algorithm.adv_estimator=rloo actor_rollout_ref.rollout.n=5", {{"task", "grpo"}}},
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=null "
     "actor_rollout_ref.actor.ppo_micro_batch_size=32",
     {{"micro_batch_size", "4"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 actor_rollout_ref.actor.use_kl_loss=True "
     "actor_rollout_ref.actor.kl_loss_coef=0.01 actor_rollout_ref.actor.kl_loss_type=mse",
     {{"kl_loss_coef", "0.01"}, {"kl_loss_type", "k2"}}},
    {"algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.002",
     {{"kl_loss_coef", "0.002"}, {"use_kl_in_reward", "true"}}},
    {"actor_rollout_ref.actor.clip_ratio=0.3", {{"clip_ratio_low", "0.3"}, {"clip_ratio_high", "0.3"}}},
    {"actor_rollout_ref.actor.policy_loss.loss_mode=cispo actor_rollout_ref.actor.clip_ratio_low=10",
     {{"clip_ratio_low", "nothing"}}},
    {"actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean", {{"loss_agg_mode", "sequence_mean"}}},
    {"actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24000 "
     "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2",
     {{"packed_sequence", "true"},
      {"micro_batch_size", "1"},
      {"seq_length", "48000"},
      {"context_parallel_size", "2"}}},
    {"actor_rollout_ref.actor.fsdp_config.param_offload=True "
     "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
     {{"rollout_placement", "colocated"}}},
    {"actor_rollout_ref.actor.fsdp_config.reshard_after_forward=False trainer.nnodes=2 "
     "actor_rollout_ref.actor.fsdp_config.fsdp_size=8",
     {{"zero_stage", "2"}, {"world_size", "16"}, {"num_distributed_optimizer_instances", "2"}}},
    {"actor_rollout_ref.actor.fsdp_config.model_dtype=bfloat16", {{"software", "torchtune"}}},
    {"actor_rollout_ref.rollout.max_num_batched_tokens=1536", {{"max_num_batched_tokens", "1536"}}},
    {"actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.gpu_memory_utilization=0.7",
     {{"rollout_software", "sglang"}, {"gpu_memory_utilization", "0.7"}}},
    {"--config-name=ppo_megatron_trainer.yaml actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
     "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1",
     {{"software", "megatron-core"},
      {"zero_stage", "1"},
      {"tensor_model_parallel_size", "4"},
      {"pipeline_model_parallel_size", "2"},
      {"sequence_parallel", "true"},
      {"overlap_grad_reduce", "false"},
      {"recompute_granularity", "full"},
      {"grad_dtype", "fp32"},
      {"rollout_pipeline_model_parallel_size", "1"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 actor_rollout_ref.model.lora_rank=64",
     {{"frozen", "canonical_lora"}, {"lora_rank", "64"}, {"lora_alpha", "16"}, {"lora_targets", "all"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 actor_rollout_ref.model.lora_rank=8 "
     "actor_rollout_ref.model.lora_alpha=32 actor_rollout_ref.model.target_modules='[q_proj,k_proj,v_proj]' "
     "actor_rollout_ref.model.lora_adapter_path=/adapters",
     {{"lora_rank", "8"}, {"lora_alpha", "32"}, {"lora_targets", "qkv"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 "
     "actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.model.lora.rank=256",
     {{"software", "megatron-core"},
      {"frozen", "lora"},
      {"lora_rank", "256"},
      {"lora_alpha", "32"},
      {"lora_targets", "all"}}},
    {"algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=2 "
     "actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.model.lora.rank=16 "
     "actor_rollout_ref.model.lora.type=canonical_lora "
     "actor_rollout_ref.model.lora.target_modules='[\"linear_q\",\"linear_k\",\"linear_v\",\"linear_proj\"]'",
     {{"frozen", "canonical_lora"}, {"lora_targets", "attention"}}},
    {"critic.model.path=Qwen/Qwen2.5-1.5B", {{"critic", "qwen2.5-1.5b"}}},
    {"reward_model.enable=True reward_model.model.path=Qwen/Qwen2.5-14B", {{"reward_model", "qwen2.5-14b"}}},
};

TEST(VerlPpo, KeysFollowFromOverrides) {
  for (const auto& [overrides, wanted] : kScripts) {
    SCOPED_TRACE(overrides);
    const LaunchFile file = read(script(overrides));
    EXPECT_EQ(file.framework, "verl");
    EXPECT_THAT(file.faults, testing::IsEmpty());
    EXPECT_THAT(file.refused, testing::IsEmpty());
    expect_settings(file, wanted);
    // A recipe of Megatron-Bridge, or GPUs that are not given, are other files' matters.
    for (const std::string& note : file.notes) {
      EXPECT_EQ(note.find("recipe"), std::string::npos) << note;
      EXPECT_EQ(note.find("--gpus"), std::string::npos) << note;
    }
  }
}

TEST(VerlPpo, RolloutOfItsOwnIsOneStepOff) {
  const LaunchFile file =
      read(script("actor_rollout_ref.hybrid_engine=False rollout.n_gpus_per_node=2 "
                  "rollout.nnodes=2 algorithm.adv_estimator=grpo "
                  "actor_rollout_ref.rollout.n=4",
                  "verl.experimental.one_step_off_policy.main_ppo"));
  EXPECT_THAT(file.refused, testing::IsEmpty());
  expect_settings(file,
                  {{"rollout_placement", "one_step_off"}, {"rollout_world_size", "4"}, {"world_size", "8"}});
  EXPECT_TRUE(names(read(script("actor_rollout_ref.hybrid_engine=False")).refused,
                    "actor_rollout_ref.hybrid_engine"));
}

TEST(VerlPpo, FilesHaveTheSameKeys) {
  const LaunchFile file = read(
      "defaults:\n  - ppo_trainer\n  - _self_\ndata:\n  max_prompt_length: 1024\n  max_response_length: "
      "2048\n"
      "actor_rollout_ref:\n  model: {path: Qwen/Qwen2.5-7B, external_lib: null}\n  rollout:\n    name: "
      "sglang\n"
      "critic: {ppo_micro_batch_size_per_gpu: null}\ntrainer: {n_gpus_per_node: 4}\n",
      "grpo.yaml");
  EXPECT_EQ(file.framework, "verl");
  EXPECT_THAT(file.refused, testing::IsEmpty());
  expect_settings(file, {{"model", "qwen2.5-7b"},
                         {"software", "verl"},
                         {"world_size", "4"},
                         {"prompt_length", "1024"},
                         {"seq_length", "3072"},
                         {"rollout_software", "sglang"}});
  expect_settings(read("defaults: [ppo_megatron_trainer, _self_]\nactor_rollout_ref: {}\n", "grpo.yaml"),
                  {{"software", "megatron-core"}, {"world_size", "8"}});
}

TEST(VerlPpo, NamesWhatIsNotThereAndWhatIsNear) {
  const LaunchFile file =
      read(script("algorithm.adv_estimator=gpg actor_rollout_ref.rollout.n=2 "
                  "critic.ppo_micro_batch_size_per_gpu=4 "
                  "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 "
                  "data.train_files=a.parquet actor_rollout_ref.rollout.enforce_eager=True"));
  for (const char* const name :
       {"critic.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
        "data.train_files"})
    EXPECT_TRUE(names(file.without_effect, name)) << name;
  for (const char* const name : {"algorithm.adv_estimator", "actor_rollout_ref.rollout.enforce_eager"})
    EXPECT_TRUE(names(file.approximated, name)) << name;
}

TEST(VerlPpo, RefusesInOneLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"algorithm.adv_estimator=remax", "expected gae, grpo, rloo"},
      {"actor_rollout_ref.model.lora_adapter_path=/adapters", "not modelled: adapters of an unknown rank"},
      {"actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.target_modules=[gates]",
       "expected all-linear, or names"},
      {"actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.model.lora.rank=32 "
       "actor_rollout_ref.model.lora.type=dora",
       "actor_rollout_ref.model.lora.type: not modelled: dora"},
      {"actor_rollout_ref.actor.fsdp_config.fsdp_size=3", "expected -1, or a divisor of 8"},
      {"actor_rollout_ref.rollout.name=hf", "expected vllm, sglang or trtllm"},
      {"actor_rollout_ref.actor.kl_loss_type=low actor_rollout_ref.actor.use_kl_loss=True", "low_var_kl, k1"},
      {"trainer.nnodes=0", "GPUs of a node from 1"},
      {"actor_rollout_ref.actor.ppo_mini_batch=8",
       "unknown to verl's table of arguments; the nearest known one is "
       "actor_rollout_ref.actor.ppo_mini_batch_size"},
      {"--config-name=ppo_megatron_trainer actor_rollout_ref.actor.megatron.tensor_model_parallel=8",
       "unknown to Megatron-LM's table"},
  };
  for (const auto& [overrides, wanted] : kCases) {
    SCOPED_TRACE(overrides);
    const std::string text = script(overrides);
    const std::string all = test::refusal_of([&] {
      for (const LaunchRemark& each : read(text).refused) throw InputError(each.name + ": " + each.reason);
    });
    EXPECT_THAT(all, HasSubstr(wanted));
    EXPECT_EQ(all.find('\n'), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace plumbline::verl_ppo_test
