// Task `generate`: lengths, refusals, keys of training that are named as without effect.
#include "core/config/generation_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"
#include "core/config_text/idle_keys.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::generation_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunConfig loaded(const Overrides& overrides, std::string* note = nullptr) {
  Overrides all = {{"model", "qwen2.5-0.5b", ""}, {"task", "generate", ""}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_run_config("", all, note);
}

TEST(GenerationConfig, PromptsTakeTheRestOfTheSequence) {
  EXPECT_EQ(loaded({}).prompt_tokens(), 1024 - 128);
  EXPECT_EQ(loaded({{"max_new_tokens", "24", ""}}).prompt_tokens(), 1000);
  EXPECT_EQ(loaded({{"prompt_length", "10", ""}}).prompt_tokens(), 10);
}

TEST(GenerationConfig, IsRefusedWithItsKey) {
  struct Case {
    Overrides overrides;
    const char* fragment;  // empty: valid
  };
  const Case cases[] = {
      {{}, ""},
      {{{"prompt_length", "896", ""}}, ""},
      {{{"prompt_length", "897", ""}},
       "prompt_length: found 897 and max_new_tokens 128, expected at most seq_length 1024 together"},
      {{{"max_new_tokens", "1024", ""}}, "max_new_tokens: found 1024 with seq_length 1024, expected fewer"},
      {{{"mbs", "2", ""}, {"dp", "3", ""}, {"gbs", "1", ""}}, ""},
      {{{"tp", "3", ""}}, "tensor_model_parallel_size: found 3"},
      {{{"cp", "2", ""}}, "task: found generate with context_parallel_size 2"},
      {{{"pp", "2", ""}, {"vocab_parallel", "vocab-1", ""}}, "with vocab_parallel"},
      {{{"teacher", "qwen2.5-1.5b", ""}}, "task: found generate with a teacher"},
      {{{"software", "megatron-core", ""}}, "with software megatron-core, which only trains"},
      {{{"task", "train", ""}}, "task: found train, expected generate"},
  };
  for (const Case& c : cases) {
    const std::string reason = why_generation_invalid(loaded(c.overrides)).value_or("");
    if (*c.fragment == '\0') {
      EXPECT_EQ(reason, "");
    } else {
      EXPECT_THAT(reason, HasSubstr(c.fragment));
    }
  }
}

/// A command of training steps never takes generation for one.
TEST(GenerationConfig, TrainingRefusesIt) {
  EXPECT_THAT(why_invalid(loaded({})).value_or(""), HasSubstr("task: found generate, expected train"));
  EXPECT_EQ(why_invalid(loaded({{"task", "train", ""}})), std::nullopt);
  // Tensor ranks of an engine all have all tokens of a mixture.
  const Overrides engine = {{"model", "qwen3-30b-a3b", ""}, {"software", "vllm", ""}, {"tp", "2", ""}};
  EXPECT_EQ(why_generation_invalid(loaded(engine)), std::nullopt);
}

TEST(GenerationConfig, KeysOfTheOtherTaskAreNamed) {
  std::string note;
  EXPECT_THAT(idle_keys(loaded({{"mbs", "4", ""}, {"dp", "2", ""}}, &note)), IsEmpty());
  EXPECT_THAT(note, testing::Not(HasSubstr("global_batch_size")));
  EXPECT_THAT(idle_keys(loaded(
                  {{"dp", "2", ""}, {"gbs", "8", ""}, {"zero_stage", "1", ""}, {"prompt_length", "9", ""}})),
              ElementsAre("zero_stage: found 1, without effect; needs task train",
                          "global_batch_size: found 8, without effect; needs task train"));
  EXPECT_THAT(idle_keys(loaded({{"task", "train", ""}, {"prompt_length", "9", ""}})),
              ElementsAre("prompt_length: found 9, without effect; needs task generate, grpo or ppo"));
}

}  // namespace
}  // namespace plumbline::generation_config_test
