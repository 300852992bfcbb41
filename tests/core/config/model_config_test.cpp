// config.json files that are read, and written again.
#include "core/config/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/families/checkpoint_config.hpp"
#include "tests/core/config/model_texts.hpp"

namespace plumbline::model_config_test {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(ModelConfig, ReadsTheFirstFourFamilies) {
  const ModelConfig a = parse(llama_json());
  EXPECT_EQ(a.architecture, "llama");
  EXPECT_EQ(a.name, "config.json");
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_EQ(a.norms.kind, Norm::rms);
  EXPECT_EQ(a.norms.epsilon, 1e-5);
  EXPECT_FALSE(a.biases.qkv || a.biases.linear || a.embedding.tied);
  EXPECT_EQ(a.rotary.theta, 10000);
  // Per layer 2 norms, q, k, v, o, gate, up, down; final norm; embedding and output layer.
  EXPECT_EQ(a.parameters(), 2 * (2 * 64 + 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96) + 64 + 2 * 6400);

  // A checkpoint's file says the same, and adds what transformers needs: the class and the type of the
  // weights.
  const std::pair<const char*, const char*> classes[] = {{"qwen2.5-0.5b", "Qwen2ForCausalLM"},
                                                         {"llama-3.1-8b", "LlamaForCausalLM"},
                                                         {"gpt2-124m", "GPT2LMHeadModel"}};
  for (const auto& [name, class_name] : classes) {
    const std::string text = to_checkpoint_config(*find_preset(name));
    const json written = json::parse(text);
    EXPECT_EQ(written["architectures"], json::array({class_name}));
    EXPECT_EQ(written["model_type"], find_preset(name)->architecture);
    EXPECT_EQ(written["torch_dtype"], "float32");
    EXPECT_FALSE(written.contains("_name_or_path"));
    ModelConfig back = parse_model_config(text, "x");
    back.name = name;
    EXPECT_EQ(to_config_json(back), to_config_json(*find_preset(name)));
  }
  const ModelConfig biased = parse(with(llama_json(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(biased.biases.qkv && biased.biases.linear);
  EXPECT_EQ(biased.parameters() - a.parameters(), 2 * (64 + 2 * 32 + 64 + 2 * 96 + 64));

  EXPECT_EQ(parse(without(llama_json(), "num_key_value_heads")).kv_heads, 4);
  EXPECT_EQ(parse(with(llama_json(), {{"head_dim", 32}})).head_dim, 32);
  EXPECT_EQ(
      parse(with(llama_json(), {{"model_type", nullptr}, {"architectures", {"LlamaForCausalLM"}}})).hidden,
      64);

  EXPECT_EQ(parse(mistral()).architecture, "mistral");

  const ModelConfig q = parse(qwen());
  EXPECT_TRUE(q.biases.qkv && q.embedding.tied && !q.biases.linear);

  const ModelConfig g = parse(gpt2());
  EXPECT_EQ(g.ffn, 4 * 48);
  EXPECT_EQ(g.kv_heads, 4);
  EXPECT_EQ(g.norms.kind, Norm::layer);
  EXPECT_EQ(g.activation, Activation::gelu);
  EXPECT_EQ(g.position.kind, Positions::learned);
  EXPECT_TRUE(g.biases.qkv && g.biases.linear && g.embedding.tied);
  EXPECT_EQ(parse(with(gpt2(), {{"n_inner", 100}})).ffn, 100);
}

TEST(ModelConfig, ReadsRotaryScalingInBothForms) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 16}};
  const ModelConfig old_form =
      parse(with(llama_json(), {{"rope_theta", 500000.0}, {"rope_scaling", scaling}}));
  const ModelConfig new_form =
      parse(with(llama_json(), {{"rope_parameters", with(scaling, {{"rope_theta", 500000.0}})}}));
  for (const ModelConfig& config : {old_form, new_form}) {
    EXPECT_EQ(config.rotary.theta, 500000);
    EXPECT_EQ(config.rotary.scaling.factor, 8);
    EXPECT_EQ(config.rotary.scaling.original_max_positions, 16);
  }
  EXPECT_EQ(parse(with(llama_json(), {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77.0}}}}))
                .rotary.theta,
            77);
}

/// As transformers 5.24's GPTNeoXConfig.
TEST(ModelConfig, ReadsRotaryNamesOfGptNeox) {
  nlohmann::json file = {{"model_type", "gpt_neox"},      {"num_hidden_layers", 2},   {"hidden_size", 64},
                         {"intermediate_size", 128},      {"num_attention_heads", 4}, {"vocab_size", 256},
                         {"max_position_embeddings", 128}};
  const auto read = [&] { return parse_model_config(file.dump(), "x"); };
  EXPECT_EQ(read().rotary.theta, 10000);
  file["rotary_emb_base"] = 500;
  file["rotary_pct"] = 0.5;
  EXPECT_EQ(read().rotary.theta, 500);
  EXPECT_EQ(read().rotated(), 8);
  const ModelConfig back = parse_model_config(to_config_json(read()), "x");
  EXPECT_EQ(back.rotary.theta, 500);
  EXPECT_EQ(back.rotated(), 8);
  file["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 77.0}};
  EXPECT_EQ(read().rotary.theta, 77);
  file.erase("rope_parameters");
  file["rope_theta"] = 300;
  EXPECT_THAT(complaint(file.dump()), HasSubstr("rope_theta: found 300, which a gpt_neox does not read"));
  file.erase("rope_theta");
  file["partial_rotary_factor"] = 0.75;
  EXPECT_THAT(complaint(file.dump()), HasSubstr("expected rotary_pct"));
}

TEST(ModelConfig, ReadsDeepseeksLayers) {
  const ModelConfig a = parse(deepseek());
  const Mixture mixture = {.experts = 8,
                           .top_k = 3,
                           .shared = 40,
                           .shared_gated = false,
                           .first_dense = 1,
                           .dense_ffn = 96,
                           .scores = RouterScores::sigmoid,
                           .routed_scale = 2.5,
                           .expert_bias = true};
  EXPECT_EQ(a.mixture, mixture);
  const LatentAttention latent = {24, 16, 12, 8, 10};
  EXPECT_EQ(a.latent, latent);
  EXPECT_EQ(a.head_dim, 20);
  EXPECT_EQ(a.rotated(), 8);
  EXPECT_EQ(a.rotary.pairs, RotaryPairs::neighbours);
  // Queries down, norm, up; keys and values down with the rotated part, norm, up; output.
  const std::int64_t attention =
      64 * 24 + 24 + 24 * 4 * 20 + 64 * (16 + 8) + 16 + 16 * 4 * (12 + 10) + 4 * 10 * 64;
  const std::int64_t dense = 3 * 64 * 96;
  const std::int64_t experts = 8 * 3 * 64 * 20 + 3 * 64 * 40 + 8 * 64 + 8;
  EXPECT_EQ(a.parameters(), 2 * (2 * 64 + attention) + dense + experts + 64 + 2 * 6400);
  EXPECT_EQ(a.parameters() - a.active_parameters(), 5 * 3 * 64 * 20);
  EXPECT_EQ(a.expert_biases(), 8);
  EXPECT_EQ(find_preset("deepseek-v3")->expert_biases(), 58 * 256);
  EXPECT_EQ(parse(deepseek({{"q_lora_rank", nullptr}})).parameters() - a.parameters(),
            2 * (64 * 80 - (64 * 24 + 24 + 24 * 80)));
}

TEST(ModelConfig, WhatIsWrittenReadsBackTheSame) {
  for (const std::string& name : preset_names()) {
    const ModelConfig& preset = *find_preset(name);
    const std::string text = to_config_json(preset);
    const ModelConfig back = parse_model_config(text, "x");
    EXPECT_EQ(to_config_json(back), text);
    EXPECT_EQ(back.name, name);
    EXPECT_EQ(back.parameters(), preset.parameters());
    EXPECT_EQ(back.rotary.theta, preset.rotary.theta);
    EXPECT_EQ(back.rotary.scaling.factor, preset.rotary.scaling.factor);
    EXPECT_EQ(back.norms.epsilon, preset.norms.epsilon);
    EXPECT_EQ(back.position.max, preset.position.max);
    EXPECT_EQ(back.mixture, preset.mixture);
    EXPECT_EQ(back.latent, preset.latent);
  }
  const ModelConfig biased = parse(with(llama_json(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(parse_model_config(to_config_json(biased), "x").biases.linear);
}

TEST(ModelConfig, FamiliesSetTheirSwitches) {
  const auto preset = [](const char* name) { return *find_preset(name); };
  const ModelConfig bloom = preset("bloom-560m");
  EXPECT_TRUE(bloom.position.kind == Positions::alibi && bloom.embedding.norm && bloom.biases.linear &&
              !bloom.position.alibi_scaled);
  const ModelConfig rw = preset("falcon-rw-1b");
  EXPECT_TRUE(rw.position.kind == Positions::alibi && rw.position.alibi_scaled &&
              rw.block == Block::sequential);
  EXPECT_EQ(rw.activation, Activation::gelu_erf);
  EXPECT_EQ(preset("falcon-7b").block, Block::parallel_one_norm);
  EXPECT_EQ(preset("falcon-7b").kv_heads, 1);
  EXPECT_EQ(preset("falcon-40b").block, Block::parallel);
  EXPECT_EQ(preset("falcon-40b").kv_heads, 8);
  EXPECT_EQ(preset("baichuan-7b").position.kind, Positions::rotary);
  EXPECT_EQ(preset("baichuan-13b").position.kind, Positions::alibi);
  EXPECT_EQ(preset("galactica-125m").position_rows(), 2050);
  EXPECT_EQ(preset("starcoder").kv_heads, 1);
  const ModelConfig glm = preset("glm-4-9b");
  EXPECT_TRUE(glm.biases.qkv && !glm.biases.linear && glm.rotary.pairs == RotaryPairs::neighbours);
  EXPECT_EQ(glm.rotated(), 64);
  EXPECT_EQ(glm.rotary.theta, 5e6);
  const ModelConfig gemma = parse(without(with(llama_json(), {{"model_type", "gemma"}}), "hidden_act"));
  EXPECT_TRUE(gemma.norms.less_one && gemma.embedding.tied && gemma.activation == Activation::geglu);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.embedding.scale, 8);
  const ModelConfig nemotron =
      parse(with(llama_json(), {{"model_type", "nemotron"}, {"hidden_act", "relu2"}}));
  EXPECT_TRUE(nemotron.norms.less_one && nemotron.activation == Activation::squared_relu);
  EXPECT_EQ(nemotron.rotated(), 8);
  EXPECT_TRUE(parse(with(llama_json(), {{"model_type", "qwen3"}})).norms.qk);
  EXPECT_TRUE(preset("baichuan2-7b").norms.output_rows &&
              preset("baichuan2-13b").position.kind == Positions::alibi);
  EXPECT_FALSE(preset("baichuan-7b").norms.output_rows);
  const ModelConfig phi = preset("phi-2");
  EXPECT_TRUE(phi.biases.output && phi.biases.linear && phi.block == Block::parallel_one_norm);
  EXPECT_EQ(phi.rotated(), 32);
  const ModelConfig glm1 = preset("chatglm-6b");
  EXPECT_TRUE(glm1.position.of_blocks && glm1.position.kind == Positions::rotary && !glm1.embedding.tied);
  EXPECT_NEAR(glm1.norms.residual, 7.4833, 1e-4);
  EXPECT_EQ(preset("glm-10b").position_rows(), 2050);
  EXPECT_EQ(preset("glm-10b").norms.residual, 0);
  EXPECT_EQ(preset("glm-130b").activation, Activation::geglu);
  EXPECT_FALSE(preset("glm-130b").position.of_blocks);
}

}  // namespace
}  // namespace plumbline::model_config_test
