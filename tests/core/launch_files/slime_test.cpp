// Steps of slime: the keys that follow from Megatron-LM's arguments and its own.
#include "core/launch_files/reinforcement/slime.hpp"

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

namespace plumbline::slime_test {
namespace {

using test::expect_settings;
using test::names;
using testing::HasSubstr;
using Settings = std::map<std::string, std::string>;

/// A script as slime's examples are: arrays of arguments, one of them in another file, under Ray.
std::string script(const std::string& arguments, const char* program = "train.py") {
  return fmt::format(
      "SCRIPT_DIR=\"$(cd -- \"$(dirname -- \"${{BASH_SOURCE[0]}}\")\" &>/dev/null && pwd)\"\n"
      "source \"${{SCRIPT_DIR}}/models/small.sh\"\n"
      "ROLLOUT_ARGS=(\n   --rollout-batch-size 32\n   --n-samples-per-prompt 8\n"
      "   --rollout-max-response-len 1024\n)\n"
      "ray job submit --address=\"http://127.0.0.1:8265\" -- python3 {} --actor-num-nodes 2 "
      "--actor-num-gpus-per-node 8 ${{MODEL_ARGS[@]}} ${{ROLLOUT_ARGS[@]}} {}\n",
      program, arguments);
}

std::optional<std::string> beside(const std::string& path) {
  if (path != "models/small.sh") return std::nullopt;
  return "MODEL_ARGS=(\n   --swiglu\n   --num-layers 4\n   --hidden-size 256\n   --ffn-hidden-size 512\n"
         "   --num-attention-heads 8\n   --normalization \"RMSNorm\"\n   --use-rotary-position-embeddings\n"
         "   --disable-bias-linear\n   --vocab-size 1024\n)\n";
}

LaunchFile read(const std::string& text) {
  const auto file = read_launch_file(text, "run.sh", beside);
  EXPECT_TRUE(file);
  return file.value_or(LaunchFile());
}

const std::pair<const char*, Settings> kScripts[] = {
    {"--colocate --global-batch-size 128",
     {{"task", "grpo"},
      {"software", "megatron-core"},
      {"precision", "bf16"},
      {"zero_stage", "1"},
      {"world_size", "16"},
      {"rollout_placement", "colocated"},
      {"rollout_world_size", "nothing"},
      {"rollout_software", "sglang"},
      {"rollout_pipeline_model_parallel_size", "1"},
      {"rl_framework", "slime"},
      {"num_prompts_per_step", "32"},
      {"num_generations_per_prompt", "8"},
      {"max_new_tokens", "1024"},
      {"prompt_length", "512"},
      {"seq_length", "1536"},
      {"global_batch_size", "128"},
      {"kl_loss_coef", "0"},
      {"clip_ratio_low", "0.2"},
      {"clip_ratio_high", "0.2"}}},
    {"--colocate --num-steps-per-rollout 2 --tensor-model-parallel-size 2 --sequence-parallel "
     "--use-dynamic-batch-size --max-tokens-per-gpu 9216 --context-parallel-size 2",
     {{"global_batch_size", "128"},
      {"tensor_model_parallel_size", "2"},
      {"sequence_parallel", "true"},
      {"packed_sequence", "true"},
      {"micro_batch_size", "1"},
      {"seq_length", "18432"}}},
    {"--colocate --use-kl-loss --kl-loss-coef 0.01 --kl-loss-type low_var_kl --eps-clip 0.1 --eps-clip-high "
     "0.28",
     {{"kl_loss_coef", "0.01"},
      {"kl_loss_type", "k3"},
      {"clip_ratio_low", "0.1"},
      {"clip_ratio_high", "0.28"}}},
    {"--colocate --use-kl-loss --kl-loss-coef 0.00", {{"kl_loss_coef", "0.001"}, {"kl_loss_type", "k1"}}},
    {"--colocate --advantage-estimator ppo --lambd 0.9 --kl-coef 0.02",
     {{"task", "ppo"}, {"gae_lambda", "0.9"}, {"kl_loss_coef", "0.02"}, {"use_kl_in_reward", "true"}}},
    {"--rollout-num-gpus 8 --rollout-num-gpus-per-engine 4 --sglang-mem-fraction-static 0.7",
     {{"rollout_placement", "split"},
      {"rollout_world_size", "8"},
      {"rollout_tensor_model_parallel_size", "4"},
      {"gpu_memory_utilization", "0.7"}}},
};

TEST(Slime, KeysFollowFromArguments) {
  for (const auto& [arguments, wanted] : kScripts) {
    SCOPED_TRACE(arguments);
    const LaunchFile file = read(script(arguments));
    EXPECT_EQ(file.framework, "slime");
    EXPECT_THAT(file.refused, testing::IsEmpty());
    expect_settings(file, wanted);
    for (const std::string& note : file.notes) EXPECT_EQ(note.find("--gpus"), std::string::npos) << note;
  }
  expect_settings(read(script("--rollout-num-gpus 8", "train_async.py")),
                  {{"rollout_placement", "one_step_off"}});
}

TEST(Slime, NamesWhatIsNear) {
  const LaunchFile file =
      read(script("--colocate --sglang-ep-size 8 --advantage-estimator gspo --gamma 0.9 --rm-type math "
                  "--rollout-num-gpus 8"));
  for (const char* const name : {"sglang_ep_size", "advantage_estimator"})
    EXPECT_TRUE(names(file.approximated, name)) << name;
  for (const char* const name : {"gamma", "rm_type", "rollout_num_gpus"})
    EXPECT_TRUE(names(file.without_effect, name)) << name;
}

TEST(Slime, RefusesInOneLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"", "rollout_num_gpus: found nothing, expected the rollout's GPUs"},
      {"--colocate --advantage-estimator mine", "expected ppo, grpo, gspo"},
      {"--colocate --num-steps-per-rollout 3", "expected a divisor of 256 responses"},
      {"--colocate --use-opd", "use_opd: not modelled: a teacher"},
      {"--colocate --rollout-batch-sizes 4", "rollout_batch_sizes: unknown to Megatron-LM's table"},
  };
  for (const auto& [arguments, wanted] : kCases) {
    SCOPED_TRACE(arguments);
    const std::string text = script(arguments);
    const std::string refusal = test::refusal_of([&] {
      for (const LaunchRemark& each : read(text).refused) throw InputError(each.name + ": " + each.reason);
    });
    EXPECT_THAT(refusal, HasSubstr(wanted));
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }
}

TEST(Slime, NamesFineTuningAlone) {
  EXPECT_EQ(test::refusal_of([] { read(script("--loss-type sft_loss")); }),
            "run.sh:8: loss_type: found \"sft_loss\", expected policy_loss: only slime's reinforcement "
            "learning is read");
}

/// Kinds of a balancing loss without a weight are one.
TEST(Slime, BalancingWithoutAWeightIsNoRefusal) {
  const std::string experts =
      "--colocate --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 "
      "--moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff ";
  expect_settings(read(script(experts + "0")), {{"moe_router_load_balancing_type", "aux_loss"}});
  expect_settings(read(script(experts + "0.01")), {{"moe_router_load_balancing_type", "seq_aux_loss"}});
}

}  // namespace
}  // namespace plumbline::slime_test
