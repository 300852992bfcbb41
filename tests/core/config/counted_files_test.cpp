// Parameters, windows and names of families that are predicted and not executed: drawn files
// (counted_files.json, made by draw_counts.py), published models, and models that are refused by the name of
// their layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/model_config.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::counted_files_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ModelConfig parse(const json& file) {
  return parse_model_config(file.dump(), "config.json");
}

/// PLUMBLINE_COUNTED_FILES: another file of the script, with more drawings.
std::string drawn_files() {
  const char* other = std::getenv("PLUMBLINE_COUNTED_FILES");
  return other != nullptr ? other
                          : std::string(PLUMBLINE_SOURCE_DIR) + "/tests/core/config/counted_files.json";
}

TEST(CountedFiles, HaveTheParametersAndWindowsOfTransformersModels) {
  std::ifstream in(drawn_files());
  std::string line;
  std::getline(in, line);  // the source
  std::int64_t count = 0;
  while (std::getline(in, line)) {
    SCOPED_TRACE(line);
    const json entry = json::parse(line);
    json file = entry.at("file");
    file["model_type"] = entry.at("family");
    ModelConfig model;
    EXPECT_NO_THROW(model = parse(file));
    if (model.layers == 0) continue;
    EXPECT_EQ(model.parameters(), entry.at("parameters"));
    if (entry.contains("windows")) {
      json windows = json::array();
      for (std::int64_t layer = 0; layer < model.layers; ++layer) windows.push_back(model.window_of(layer));
      EXPECT_EQ(windows, entry.at("windows"));
    }
    const std::string written = to_config_json(model);
    const ModelConfig back = parse_model_config(written, "x");
    EXPECT_EQ(to_config_json(back), written);
    EXPECT_EQ(back.parameters(), model.parameters());
    EXPECT_EQ(back.predicted.names, model.predicted.names);
    ++count;
  }
  EXPECT_GT(count, 0);
}

json sizes(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
           std::int64_t ffn, std::int64_t vocab) {
  return {{"num_hidden_layers", layers},      {"hidden_size", hidden},    {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},  {"intermediate_size", ffn}, {"vocab_size", vocab},
          {"max_position_embeddings", 131072}};
}
json with(json base, const json& changes) {
  base.update(changes);
  return base;
}

/// Counts of the safetensors files, and of the model cards.
TEST(CountedFiles, HaveThePublishedCounts) {
  struct Case {
    const char* name;
    json file;
    std::int64_t parameters;
    double active;  // in billions, as published: without the lookup's table; 0: not tested
  };
  const std::vector<Case> cases = {
      {"olmo-2-7b", with(sizes(32, 4096, 32, 32, 11008, 100352), {{"model_type", "olmo2"}}), 7'298'617'344,
       0},
      {"gemma-3-1b",
       with(sizes(26, 1152, 4, 1, 6912, 262144),
            {{"model_type", "gemma3_text"}, {"head_dim", 256}, {"sliding_window", 512}}),
       999'885'952, 0},
      {"gpt-oss-20b",
       with(sizes(24, 2880, 64, 8, 2880, 201088),
            {{"model_type", "gpt_oss"}, {"num_local_experts", 32}, {"num_experts_per_tok", 4}}),
       20'914'757'184, 3.61},
      {"gpt-oss-120b",
       with(sizes(36, 2880, 64, 8, 2880, 201088),
            {{"model_type", "gpt_oss"}, {"num_local_experts", 128}, {"num_experts_per_tok", 4}}),
       116'829'156'672, 5.13},
      {"llama-4-maverick",
       with(sizes(48, 5120, 40, 8, 8192, 202048), {{"model_type", "llama4_text"},
                                                   {"num_local_experts", 128},
                                                   {"num_experts_per_tok", 1},
                                                   {"interleave_moe_layer_step", 2}}),
       400'711'848'960, 0},
      {"command-r", with(sizes(40, 8192, 64, 64, 22528, 256000), {{"model_type", "cohere"}}), 34'980'831'232,
       0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ModelConfig model = parse(c.file);
    EXPECT_EQ(model.parameters(), c.parameters);
    if (c.active > 0) {
      const std::int64_t active = model.active_parameters() - model.vocab * model.hidden;
      EXPECT_NEAR(static_cast<double>(active) / 1e9, c.active, 0.01);
    }
  }
}

TEST(CountedFiles, TakeTheTextModelOfSeveral) {
  const json qwen = with(sizes(2, 64, 4, 2, 96, 100), {{"model_type", "qwen2"}});
  const json positions = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  const std::int64_t expected = parse(qwen).parameters();
  EXPECT_EQ(parse(with(qwen, {{"model_type", "qwen2_5_vl"}, {"rope_scaling", positions}})).parameters(),
            expected);
  EXPECT_EQ(
      parse({{"model_type", "qwen2_5_vl"}, {"text_config", with(qwen, {{"model_type", "qwen2_5_vl_text"}})}})
          .parameters(),
      expected);
  EXPECT_EQ(parse({{"model_type", "qwen2_5_omni"},
                   {"thinker_config", {{"text_config", with(qwen, {{"model_type", "qwen2_5_omni_text"}})}}}})
                .parameters(),
            expected);
  const ModelConfig flat = parse(with(qwen, {{"vision_config", {{"depth", 3}}}}));
  EXPECT_EQ(flat.source.left_out, "vision_config");
  // Gemma 3's multimodal files leave sizes of the class out.
  EXPECT_EQ(parse({{"model_type", "gemma3"},
                   {"text_config",
                    {{"model_type", "gemma3_text"},
                     {"hidden_size", 2560},
                     {"intermediate_size", 10240},
                     {"num_hidden_layers", 34},
                     {"sliding_window", 1024},
                     {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}}}})
                .parameters(),
            3'880'263'168);
}

/// Switches of executed families, as read and as written and read again.
TEST(CountedFiles, SwitchesOfRecentFamiliesAreExecuted) {
  const json base = sizes(4, 64, 4, 2, 96, 100);
  const json granite = {{"model_type", "granite"},     {"attention_multiplier", 0.125},
                        {"residual_multiplier", 0.22}, {"embedding_multiplier", 12},
                        {"logits_scaling", 8},         {"head_dim", 16}};
  for (const bool again : {false, true}) {
    const auto read = [&](const json& changes) {
      const ModelConfig model = parse(with(base, changes));
      return again ? parse_model_config(to_config_json(model), "x") : model;
    };
    const ModelConfig llama = read({{"model_type", "llama"}, {"attention_bias", true}});
    EXPECT_TRUE(llama.biases.qkv && llama.has_projection_bias() && !llama.has_feed_forward_bias());
    const ModelConfig smollm = read({{"model_type", "smollm3"}});
    EXPECT_TRUE(smollm.rotates(2) && !smollm.rotates(3) && smollm.rotates(4));
    const ModelConfig scaled = read(granite);
    EXPECT_EQ(scaled.multipliers, (Multipliers{0.5, 0.22, 0.125}));
    EXPECT_EQ(scaled.embedding.scale, 12);
    EXPECT_TRUE(read({{"model_type", "hunyuan_v1_dense"}}).norms.qk_rotated);
    const ModelConfig ernie = read({{"model_type", "ernie4_5_moe"}, {"moe_intermediate_size", 16}});
    EXPECT_TRUE(ernie.mixture.expert_bias && ernie.mixture.scores == RouterScores::softmax);
    EXPECT_EQ(ernie.mixture.first_dense, 1);
    const ModelConfig qwen = read({{"model_type", "qwen3_moe"},
                                   {"moe_intermediate_size", 16},
                                   {"num_experts", 4},
                                   {"num_experts_per_tok", 2},
                                   {"mlp_only_layers", {0, 1}}});
    EXPECT_EQ(qwen.mixture.first_dense, 2);
    EXPECT_EQ(qwen.dense_ffn(), 96);
    for (const ModelConfig& model : {llama, smollm, scaled, ernie, qwen})
      EXPECT_EQ(model.predicted.names, "");
  }
  const ModelConfig biased = parse(with(base, with(granite, {{"attention_bias", true}})));
  EXPECT_EQ(biased.predicted.names, "biases with a residual multiplier");
}

TEST(CountedFiles, ArePredictedAndNotExecuted) {
  RunConfig config;
  config.batch.seq_length = 16;
  for (const json& changes :
       {json{{"model_type", "gemma3_text"}, {"head_dim", 16}, {"sliding_window", 8}},
        json{{"model_type", "olmo2"}, {"attention_bias", true}},
        json{{"model_type", "olmo3"}, {"sliding_window", 8}, {"rope_theta", 1e4}},
        json{{"model_type", "gpt_oss"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}}}) {
    config.model = parse(with(sizes(2, 64, 4, 4, 96, 100), changes));
    EXPECT_EQ(why_unpredictable(config), std::nullopt);
    EXPECT_NE(config.model.predicted.names, "");
    EXPECT_THAT(why_unsupported(config).value_or(""), HasSubstr(config.model.predicted.names));
  }
}

TEST(CountedFiles, NormsOfResultsAndOfAllHeadsExcludeSettings) {
  struct Case {
    void (*change)(RunConfig& config);
    const char* says;
  };
  const Case cases[] = {
      {[](RunConfig&) {}, "accepted"},
      {[](RunConfig& c) { c.recompute.granularity = Recompute::full; }, "accepted"},
      {[](RunConfig& c) { c.parallel.tensor = c.parallel.world_size = 2; },
       "tensor_model_parallel_size: found 2 with norms over all heads of queries and keys, whose tensor "
       "ranks"},
      {[](RunConfig& c) { c.numerics.hidden_dropout = 0.1; }, "accepted"},
      {[](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; }, "accepted"},
      {[](RunConfig& c) { c.offload.num_layers = 1; }, "accepted"},
      {[](RunConfig& c) {
         c.recompute.granularity = Recompute::selective;
         c.recompute.modules.layernorm = true;
       },
       "with no norms of attention's and the MLP's inputs, expected other modules"},
      {[](RunConfig& c) { c.model.prediction_modules = 1; }, "whose blocks norm their results"},
  };
  for (const Case& each : cases) {
    RunConfig config;
    config.batch.seq_length = 16;
    config.model = parse(with(sizes(2, 64, 4, 4, 96, 100), {{"model_type", "olmo2"}}));
    each.change(config);
    const std::optional<std::string> invalid = why_invalid(config);
    EXPECT_THAT(invalid ? *invalid : why_unsupported(config).value_or("accepted"), HasSubstr(each.says));
  }
}

TEST(CountedFiles, OthersAreRefusedByTheNameOfTheirLayers) {
  const json base = sizes(2, 64, 4, 4, 96, 100);
  const std::vector<std::pair<json, const char*>> cases = {
      {{{"model_type", "deepseek_v32"}}, "\"deepseek_v32\", a model with sparse attention"},
      {{{"model_type", "deepseek_v3"}, {"index_topk", 2048}}, "index_topk: found 2048, a model with sparse"},
      {{{"model_type", "falcon_h1"}}, "a hybrid of attention and Mamba layers"},
      {{{"model_type", "jamba"}}, "a hybrid of attention and Mamba layers"},
      {{{"model_type", "qwen3_next"}}, "a hybrid of attention and linear attention layers"},
      {{{"model_type", "llama"}, {"layer_types", {"mamba", "attention"}}}, "a model with Mamba layers"},
      {{{"model_type", "minimax_m2"},
        {"num_local_experts", 4},
        {"num_experts_per_tok", 2},
        {"attn_type_list", {0, 1}}},
       "attn_type_list: found layers with linear attention"},
  };
  for (const auto& [changes, message] : cases) {
    SCOPED_TRACE(changes.dump());
    try {
      parse(with(base, changes));
      FAIL() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plumbline::counted_files_test
