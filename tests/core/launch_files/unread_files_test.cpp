// Files of frameworks that are known and not read: one line says what to give instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::unread_files_test {
namespace {

TEST(UnreadFiles, NameTheFrameworkAndTheChange) {
  struct Case {
    const char* file;
    const char* text;
    const char* framework;
    const char* change;
  };
  const Case cases[] = {
      {"a.yaml", "work_group: amd\nmodules:\n  pre_trainer: {}\n", "Primus", "; change it to the model"},
      {"a.yaml", "model: {}\nparallelism:\n  dp: 2\ntokens:\n  sequence_length: 8\n", "nanotron",
       "tp is tensor_model_parallel_size"},
      {"a.yaml", "model:\n  name: mpt_causal_lm\ntrain_loader: {}\n", "llm-foundry", "software: llm-foundry"},
      {"a.yaml", "actor_rollout_ref: {}\ntrainer: {}\n", "verl", "--megatron-args"},
      {"a.yaml", "base_model: a/b\nsequence_len: 4096\n", "Axolotl", "software: deepspeed"},
      {"a.yaml", "per_device_batch_size: 2\nsteps: 3\n", "MaxText", "software: maxtext"},
      {"a.sh", "python3 train.py --num-layers 4 --hidden-size 8 --rollout-batch-size 8\n", "slime",
       "--megatron-args"},
      {"a.sh", "python3 -m verl.trainer.main_ppo data.train_batch_size=8\n", "verl", "--megatron-args"},
  };
  for (const Case& c : cases) {
    const std::string refusal = test::refusal_of([&] { read_launch_file(c.text, c.file); });
    EXPECT_THAT(refusal, testing::StartsWith(std::string(c.file) + ": found a "));
    EXPECT_THAT(refusal,
                testing::HasSubstr(std::string(" of ") + c.framework + ", which is not read, expected"));
    EXPECT_THAT(refusal, testing::HasSubstr(c.change));
    EXPECT_EQ(refusal.find('\n'), std::string::npos);
  }
  // Keys of plumbline that such files have too.
  EXPECT_FALSE(read_launch_file("model: llama-3.1-8b\nsteps: 3\n", "a.yaml").has_value());
}

}  // namespace
}  // namespace plumbline::unread_files_test
