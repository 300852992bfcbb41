// Published config.json files: scaled positions, other types' names, several models in one file; and the
// files written with weights that come from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/config_checks.hpp"
#include "core/config/families/checkpoint_config.hpp"
#include "tests/core/config/model_texts.hpp"

namespace plumbline::published_files_test {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(PublishedFiles, TakesScaledPositionsForPredictionsAlone) {
  for (const char* type : {"yarn", "longrope", "su", "linear", "dynamic"}) {
    for (const json& changes :
         {json{{"rope_theta", 5e5}, {"rope_scaling", {{"type", type}, {"factor", 4}}}},
          json{{"rope_parameters", {{"rope_type", type}, {"rope_theta", 5e5}, {"long_factor", {1, 2}}}}}}) {
      SCOPED_TRACE(changes.dump());
      RunConfig config;
      config.model = parse(with(llama_json(), changes));
      config.batch.seq_length = 16;
      EXPECT_EQ(config.model.rotary.scaling.predicted_type, type);
      EXPECT_EQ(config.model.rotary.theta, 5e5);
      EXPECT_EQ(to_config_json(parse_model_config(to_config_json(config.model), "config.json")),
                to_config_json(config.model));
      EXPECT_EQ(why_invalid(config), std::nullopt);
      EXPECT_EQ(why_unpredictable(config), std::nullopt);
      EXPECT_THAT(why_unsupported(config).value_or(""), HasSubstr(type));
      config.distillation.teacher = config.model;
      config.model.rotary.scaling = {};
      EXPECT_EQ(why_unpredictable(config), std::nullopt);
      EXPECT_THAT(why_unsupported(config).value_or(""), HasSubstr(type));
    }
  }
}

TEST(PublishedFiles, TakesQueriesWithoutCompressionForPredictionsAlone) {
  RunConfig config;
  config.model = parse(deepseek({{"q_lora_rank", nullptr}}));
  config.batch.seq_length = 16;
  EXPECT_EQ(why_invalid(config), std::nullopt);
  EXPECT_EQ(why_unpredictable(config), std::nullopt);
  EXPECT_THAT(why_unsupported(config).value_or(""), HasSubstr("without q_lora_rank"));
}

TEST(PublishedFiles, ReadsWhatArchitecturesSayOfAKimi) {
  const ModelConfig kimi =
      parse(deepseek({{"model_type", "kimi_k2"}, {"architectures", {"DeepseekV3ForCausalLM"}}}));
  EXPECT_TRUE(same_model(kimi, parse(deepseek())));
}

TEST(PublishedFiles, ReadsTheLanguageModelOfSeveral) {
  const json file = {
      {"model_type", "mistral3"}, {"text_config", mistral()}, {"vision_config", {{"hidden_size", 8}}}};
  EXPECT_TRUE(same_model(parse(file), parse(mistral())));
  EXPECT_EQ(parse(file).source.left_out, "vision_config");
  EXPECT_TRUE(parse(with(file, {{"tie_word_embeddings", true}})).embedding.tied);
  EXPECT_EQ(parse(mistral()).source.left_out, "");
}

/// The config.json that weights are saved with.
TEST(CheckpointConfig, KeepsTheSourcesKeysButThoseThatDiffer) {
  const json source = with(deepseek(), {{"_name_or_path", "/home/a"},
                                        {"bos_token_id", 3},
                                        {"eos_token_id", {4, 5}},
                                        {"attention_dropout", 0.1},
                                        {"num_nextn_predict_layers", 1},
                                        {"quantization_config", {{"quant_method", "fp8"}}},
                                        {"torch_dtype", "bfloat16"}});
  ModelConfig model = parse(source);
  const auto written = [&](const json& file) {
    return json::parse(to_checkpoint_config(model, file.dump(), "config.json"));
  };
  json expected = with(source, {{"torch_dtype", "float32"}, {"architectures", {"DeepseekV3ForCausalLM"}}});
  expected.erase("_name_or_path");
  expected.erase("quantization_config");
  EXPECT_EQ(written(source), expected);
  const json named = {
      {"model_type", "kimi_k2"}, {"architectures", {"DeepseekV3ForCausalLM"}}, {"auto_map", {{"A", "b"}}}};
  EXPECT_EQ(written(with(source, named)), expected);
  EXPECT_EQ(written({{"model_type", "several"}, {"text_config", source}}),
            with(expected, {{"tie_word_embeddings", false}}));
  model.norms.epsilon = 0.5;
  model.prediction_modules = 2;
  EXPECT_EQ(written(source), with(expected, {{"rms_norm_eps", 0.5}, {"num_nextn_predict_layers", 2}}));
  // Without a source there are no ids of tokens either.
  EXPECT_TRUE(json::parse(to_checkpoint_config(model)).at("eos_token_id").is_null());
}

}  // namespace
}  // namespace plumbline::published_files_test
