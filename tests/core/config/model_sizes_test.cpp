// Sizes of a launch file in a model that the user names.
#include "core/config/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.hpp"

namespace plumbline::model_sizes_test {
namespace {

using testing::HasSubstr;

ModelConfig with(const char* preset, const std::string& flag, const std::string& value,
                 std::vector<std::string>& changes) {
  return with_sizes(*find_preset(preset), {{flag, value, "run.yaml:7: " + flag}}, changes);
}

/// Its own sizes leave a model as it is, of every kind.
TEST(ModelSizes, OwnOnesChangeNothing) {
  const std::vector<ModelSize> nano = {
      {"--num-layers", "52", "a"},
      {"--hidden-size", "2688", "a"},
      {"--num-attention-heads", "32", "a"},
      {"--num-query-groups", "2", "a"},
      {"--kv-channels", "128", "a"},
      {"--num-experts", "128", "a"},
      {"--moe-router-topk", "6", "a"},
      {"--moe-ffn-hidden-size", "1856", "a"},
      {"--mamba-num-heads", "64", "a"},
      {"--mamba-head-dim", "64", "a"},
      {"--mamba-num-groups", "8", "a"},
      {"--mamba-state-dim", "128", "a"},
      {"--ffn-hidden-size", "1856", "a"},
      {"--moe-shared-expert-intermediate-size", "3712", "a"},
      {"--hybrid-layer-pattern", "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "a"}};
  const std::vector<ModelSize> deepseek = {
      {"--num-layers", "61", "a"},         {"--q-lora-rank", "1536", "a"},
      {"--kv-lora-rank", "512", "a"},      {"--qk-head-dim", "128", "a"},
      {"--v-head-dim", "128", "a"},        {"--qk-pos-emb-head-dim", "64", "a"},
      {"--ffn-hidden-size", "18432", "a"}, {"--kv-channels", "128", "a"},
      {"--num-query-groups", "128", "a"}};
  for (const auto& [preset, sizes] :
       {std::pair("nemotron-3-nano-30b-a3b", nano), std::pair("deepseek-v3", deepseek)}) {
    std::vector<std::string> changes;
    const ModelConfig model = with_sizes(*find_preset(preset), sizes, changes);
    EXPECT_EQ(to_config_json(model), to_config_json(*find_preset(preset))) << preset;
    EXPECT_THAT(changes, testing::IsEmpty()) << preset;
    for (const ModelSize& size : sizes) EXPECT_TRUE(is_model_size(size.flag)) << size.flag;
  }
  EXPECT_FALSE(is_model_size("--swiglu"));
}

TEST(ModelSizes, OthersAreTakenAndSaid) {
  struct Case {
    const char* preset;
    const char* flag;
    const char* value;
    std::int64_t ModelConfig::*size;
  };
  for (const Case& c : {Case{"llama-3.1-8b", "--num-layers", "4", &ModelConfig::layers},
                        {"llama-3.1-8b", "--ffn-hidden-size", "8192", &ModelConfig::ffn},
                        {"llama-3.1-8b", "--vocab-size", "32000", &ModelConfig::vocab},
                        {"llama-3.1-8b", "--num-query-groups", "32", &ModelConfig::kv_heads},
                        {"gpt2-124m", "--num-layers", "6", &ModelConfig::layers},
                        {"gpt-oss-20b", "--vocab-size", "128256", &ModelConfig::vocab},
                        {"nemotron-3-nano-30b-a3b", "--vocab-size", "1024", &ModelConfig::vocab},
                        {"qwen3-30b-a3b", "--num-layers", "2", &ModelConfig::layers}}) {
    std::vector<std::string> changes;
    const ModelConfig model = with(c.preset, c.flag, c.value, changes);
    EXPECT_EQ(model.*c.size, std::stoll(c.value)) << c.preset << " " << c.flag;
    EXPECT_EQ(model.name, c.preset);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_THAT(changes.front(), testing::AllOf(HasSubstr("run.yaml:7"), HasSubstr("is taken, not the")));
  }
}

TEST(ModelSizes, ThoseOfAnotherModelAreRefused) {
  struct Case {
    const char* preset;
    const char* flag;
    const char* value;
    const char* reason;
  };
  for (const Case& c :
       {Case{"qwen3-30b-a3b", "--num-experts", "64", "found 64, expected 128, that of qwen3-30b-a3b"},
        {"llama-3.1-8b", "--num-experts", "8", "found 8, expected 0"},
        {"nemotron-3-nano-30b-a3b", "--num-layers", "4", "found 4, expected 52"},
        {"nemotron-3-nano-30b-a3b", "--mamba-state-dim", "64", "expected 128"},
        {"nemotron-3-nano-30b-a3b", "--hybrid-layer-pattern", "MM*-", "found MM*-, expected MEMEM*"},
        {"llama-3.1-8b", "--hybrid-layer-pattern", "M*", "found M*, expected none"},
        {"llama-3.1-8b", "--num-layers", "four", "found four, expected a whole number"},
        {"llama-3.1-8b", "--num-layers", "-4", "expected a whole number"}}) {
    std::vector<std::string> changes;
    EXPECT_THAT(
        [&] { with(c.preset, c.flag, c.value, changes); },
        testing::ThrowsMessage<InputError>(testing::AllOf(HasSubstr("run.yaml:7"), HasSubstr(c.reason))))
        << c.flag;
  }
}

}  // namespace
}  // namespace plumbline::model_sizes_test
