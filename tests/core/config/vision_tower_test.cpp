// Vision towers of config.json files. Numbers of parameters: models of transformers 5.24 on the meta device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/run_config.hpp"
#include "tests/core/config/model_texts.hpp"

namespace plumbline::vision_tower_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ModelConfig parse(const json& file) {
  return parse_model_config(file.dump(), "config.json");
}

TEST(VisionTower, PresetsHaveAsManyParametersAsTheirClasses) {
  struct Case {
    const char* name;
    std::int64_t tower;
    std::int64_t whole;
  };
  for (const Case& each : {Case{"Qwen/Qwen2.5-VL-7B-Instruct", 676'550'144, 8'292'166'656},
                           {"Qwen/Qwen3-VL-4B-Instruct", 415'347'712, 4'437'815'808},
                           {"Qwen/Qwen3-VL-8B-Instruct", 576'388'336, 8'767'123'696},
                           {"Qwen/Qwen3-VL-30B-A3B-Instruct", 538'631'408, 31'070'754'032},
                           {"Qwen/Qwen3-VL-235B-A22B-Instruct", 576'388'336, 235'670'022'896}}) {
    const ModelConfig* const model = find_preset(each.name);
    ASSERT_NE(model, nullptr) << each.name;
    EXPECT_EQ(model->predicted.vision.parameters(), each.tower) << each.name;
    EXPECT_EQ(model->parameters() + model->predicted.vision.parameters(), each.whole) << each.name;
    EXPECT_EQ(parse_model_config(to_config_json(*model), "again").predicted.vision, model->predicted.vision);
  }
}

json text_model(const char* type, std::int64_t hidden) {
  return {{"model_type", type},       {"num_hidden_layers", 2},   {"hidden_size", hidden},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 32},
          {"intermediate_size", 96},  {"vocab_size", 100},        {"max_position_embeddings", 64}};
}

TEST(VisionTower, IsReadFromFilesOfItsKinds) {
  struct Case {
    const char* type;
    const char* text_type;
    json vision;
    std::int64_t parameters;
  };
  const Case cases[] = {
      // Hub files keep the old names of Qwen2-VL: hidden_size is the language model's.
      {"qwen2_vl",
       "qwen2_vl_text",
       {{"depth", 32}, {"embed_dim", 1280}, {"hidden_size", 3584}, {"mlp_ratio", 4}, {"in_chans", 3}},
       675'759'104},
      {"qwen2_5_vl", "qwen2_5_vl_text", {{"depth", 32}, {"hidden_size", 1280}}, 676'550'144},
      {"qwen3_vl",
       "qwen3_vl_text",
       {{"model_type", "qwen3_vl_vision"}, {"out_hidden_size", 3584}},
       566'949'104},
      {"qwen3_5", "qwen3", {{"depth", 27}}, 0},
      {"llava", "qwen3", {{"depth", 27}}, 0},
  };
  for (const Case& each : cases) {
    const ModelConfig model = parse({{"model_type", each.type},
                                     {"text_config", text_model(each.text_type, 3584)},
                                     {"vision_config", each.vision}});
    EXPECT_EQ(model.predicted.vision ? model.predicted.vision.parameters() : 0, each.parameters) << each.type;
    EXPECT_EQ(model.source.left_out, "vision_config");
  }
}

TEST(VisionTower, ImagesAndFrozenPartsAreChecked) {
  struct Case {
    const char* reason;
    void (*change)(RunConfig&);
  };
  for (const Case& each :
       {Case{"", [](RunConfig&) {}},
        {"images_per_sequence: found 1 with software plumbline, which has no vision tower",
         [](RunConfig& c) { c.machine.software = "plumbline"; }},
        {"images_per_sequence: found 1 with qwen3-8b, which has no vision tower",
         [](RunConfig& c) { c.model = *find_preset("qwen3-8b"); }},
        {"image_tokens: found 2000 of each of 3 images, expected at most 1365",
         [](RunConfig& c) { c.batch.images_per_sequence = 3, c.batch.image_tokens = 2000; }},
        {"images_per_sequence: found 1 with a vision tower of out_hidden_size 1024, expected the 4096",
         [](RunConfig& c) { c.model.predicted.vision.out = 1024; }},
        {"image_tokens: found 100 with images_per_sequence 0, expected images_per_sequence of at least 1",
         [](RunConfig& c) { c.batch.images_per_sequence = 0, c.batch.image_tokens = 100; }},
        {"freeze_vision_model: found true with images_per_sequence 0",
         [](RunConfig& c) { c.batch.images_per_sequence = 0, c.finetune.freeze_vision_model = true; }},
        {"nothing trains",
         [](RunConfig& c) {
           c.finetune.freeze_language_model = c.finetune.freeze_vision_model =
               c.finetune.freeze_vision_projection = true;
         }},
        {"tensor_model_parallel_size: found 32, expected a divisor of the 16 heads and 4304 columns",
         [](RunConfig& c) { c.parallel.tensor = c.parallel.world_size = 32; }}}) {
    RunConfig config;
    config.model = *find_preset("qwen3-vl-8b");
    config.machine.software = "megatron-bridge";
    config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 32};
    config.batch.images_per_sequence = 1;
    each.change(config);
    const std::string found = why_invalid(config).value_or("");
    EXPECT_EQ(found.empty(), *each.reason == '\0') << found;
    EXPECT_THAT(found, HasSubstr(each.reason));
  }
}

}  // namespace
}  // namespace plumbline::vision_tower_test
