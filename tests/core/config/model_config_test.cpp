// Presets have the published parameter counts; config.json files good and bad.
#include "core/config/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/families/checkpoint_config.hpp"

namespace plumbline {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(Presets, HaveThePublishedParameterCounts) {
  struct Case {
    const char* name;
    std::int64_t parameters;
    std::int64_t active = 0;  // 0: all
  };
  constexpr Case kCases[] = {
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"gpt2-124m", 124'439'808},
      {"gpt2-1558m", 1'557'611'200},
      {"gpt3-175b", 96 * (12 * 12288LL * 12288 + 13 * 12288) + (2 + 50257 + 2048) * 12288LL},
      {"bloom-560m", 559'214'592},
      {"bloom-1b1", 1'065'314'304},
      {"bloom-1b7", 1'722'408'960},
      {"bloom-3b", 3'002'557'440},
      {"bloom-7b1", 7'069'016'064},
      {"bloom-176b", 176'247'271'424},
      {"falcon-rw-1b", 1'311'625'216},
      {"falcon-7b", 7'217'189'760},
      {"falcon-40b", 41'835'970'560},
      {"falcon-180b", 179'522'565'120},
      {"baichuan-7b", 7'000'559'616},
      {"baichuan-13b", 13'264'901'120},
      {"baichuan2-7b", 7'505'973'248},
      {"baichuan2-13b", 13'896'668'160},
      {"chatglm-6b", 6'707'929'088},
      {"glm-10b", 9'880'682'496},
      {"glm-130b", 128'697'794'560},
      {"chatglm2-6b", 6'243'584'000},
      {"glm-4-9b", 9'399'951'360},
      {"galactica-125m", 125'030'400},
      {"galactica-1.3b", 1'315'201'024},
      {"galactica-6.7b", 6'657'359'872},
      {"galactica-30b", 29'972'590'592},
      {"galactica-120b", 121'341'747'200},
      {"starcoder", 15'517'456'384},
      {"starcoderbase-3b", 3'043'311'104},
      {"starcoderbase-7b", 7'327'263'232},
      {"santacoder", 1'124'886'528},
      {"starcoder2-3b", 3'030'371'328},
      {"starcoder2-7b", 7'173'923'840},
      {"starcoder2-15b", 15'957'889'024},
      {"phi-1.5", 1'418'270'720},
      {"phi-2", 2'779'683'840},
      {"phi-3-mini-4k", 3'821'079'552},
      {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},
      {"mistral-7b", 7'241'732'096},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
      {"mixtral-8x22b", 140'620'634'112, 39'152'031'744},
      {"qwen1.5-moe-a2.7b", 14'315'784'192, 2'689'173'504},
      {"qwen2-57b-a14b", 57'408'658'944, 14'249'270'784},
      {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
      {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
      {"deepseek-v3", 671'026'419'200, 37'552'297'472},
      {"kimi-k2", 1'026'408'232'448, 32'861'500'928},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"deepseek-v2-lite", 15'706'484'224, 2'661'150'208},
      {"gemma-3-1b", 999'885'952},
      {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},
      {"gpt-oss-20b", 20'914'757'184, 4'187'440'704},
      {"gpt-oss-120b", 116'829'156'672, 5'711'982'912},
      {"gpt3-175b-mlperf", 174'615'846'912},
  };
  std::vector<std::string> names;
  for (const Case& c : kCases) {
    const ModelConfig* preset = find_preset(c.name);
    ASSERT_NE(preset, nullptr) << c.name;
    EXPECT_EQ(preset->parameters(), c.parameters) << c.name;
    EXPECT_EQ(preset->active_parameters(), c.active > 0 ? c.active : c.parameters) << c.name;
    // Heads of 256, of 128 in any model, of two parts.
    const bool wider = preset->name == "gemma-7b" || preset->qk_norm || preset->latent ||
                       preset->name.starts_with("gemma-3") || preset->name.starts_with("gpt-oss");
    EXPECT_TRUE(wider || preset->hidden == preset->heads * preset->head_dim) << c.name;
    names.push_back(c.name);
  }
  EXPECT_EQ(preset_names(), names);
  EXPECT_EQ(find_preset("Qwen2.5-0.5B"), find_preset("qwen2.5-0.5b"));
  EXPECT_EQ(find_preset("qwen2.5"), nullptr);
  const std::pair<const char*, const char*> on_hub[] = {
      {"google/gemma-3-4b-it", "gemma-3-4b"},
      {"google/gemma-3-27b-pt", "gemma-3-27b"},
      {"openai/gpt-oss-120b", "gpt-oss-120b"},
      {"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
      {"Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"},
      {"https://huggingface.co/meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
  };
  for (const auto& [name, preset] : on_hub) {
    ASSERT_NE(find_preset(name), nullptr) << name;
    EXPECT_EQ(find_preset(name)->name, preset);
  }
}

json llama() {
  return {{"model_type", "llama"},    {"hidden_size", 64},    {"intermediate_size", 96},
          {"num_hidden_layers", 2},   {"vocab_size", 100},    {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"hidden_act", "silu"}, {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-5}};
}
json with(json base, const json& changes) {
  base.update(changes);
  return base;
}
json without(json base, const char* key) {
  base.erase(key);
  return base;
}
json mistral() {
  return with(llama(), {{"model_type", "mistral"}, {"sliding_window", nullptr}});
}
json qwen() {
  return with(llama(),
              {{"model_type", "qwen2"}, {"use_sliding_window", false}, {"tie_word_embeddings", true}});
}
json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 48},      {"n_layer", 3},
          {"n_head", 4},          {"n_positions", 32}, {"vocab_size", 100}};
}
json deepseek(const json& changes = json::object()) {
  json plain = with(without(llama(), "num_key_value_heads"), {{"model_type", "deepseek_v3"},
                                                              {"q_lora_rank", 24},
                                                              {"kv_lora_rank", 16},
                                                              {"qk_nope_head_dim", 12},
                                                              {"qk_rope_head_dim", 8},
                                                              {"v_head_dim", 10},
                                                              {"moe_intermediate_size", 20},
                                                              {"n_routed_experts", 8},
                                                              {"n_shared_experts", 2},
                                                              {"num_experts_per_tok", 3},
                                                              {"first_k_dense_replace", 1},
                                                              {"n_group", 1},
                                                              {"topk_group", 1}});
  return with(plain, changes);
}
ModelConfig parse(const json& config) {
  return parse_model_config(config.dump(), "config.json");
}
std::string complaint(const std::string& text) {
  try {
    parse_model_config(text, "config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ModelConfig, ReadsTheFirstFourFamilies) {
  const ModelConfig a = parse(llama());
  EXPECT_EQ(a.architecture, "llama");
  EXPECT_EQ(a.name, "config.json");
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_EQ(a.norm, Norm::rms);
  EXPECT_EQ(a.norm_epsilon, 1e-5);
  EXPECT_FALSE(a.qkv_bias || a.linear_bias || a.tied_embeddings);
  EXPECT_EQ(a.rope_theta, 10000);
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
  const ModelConfig biased = parse(with(llama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(biased.qkv_bias && biased.linear_bias);
  EXPECT_EQ(biased.parameters() - a.parameters(), 2 * (64 + 2 * 32 + 64 + 2 * 96 + 64));

  EXPECT_EQ(parse(without(llama(), "num_key_value_heads")).kv_heads, 4);
  EXPECT_EQ(parse(with(llama(), {{"head_dim", 32}})).head_dim, 32);
  EXPECT_EQ(parse(with(llama(), {{"model_type", nullptr}, {"architectures", {"LlamaForCausalLM"}}})).hidden,
            64);

  EXPECT_EQ(parse(mistral()).architecture, "mistral");

  const ModelConfig q = parse(qwen());
  EXPECT_TRUE(q.qkv_bias && q.tied_embeddings && !q.linear_bias);

  const ModelConfig g = parse(gpt2());
  EXPECT_EQ(g.ffn, 4 * 48);
  EXPECT_EQ(g.kv_heads, 4);
  EXPECT_EQ(g.norm, Norm::layer);
  EXPECT_EQ(g.activation, Activation::gelu);
  EXPECT_EQ(g.positions, Positions::learned);
  EXPECT_TRUE(g.qkv_bias && g.linear_bias && g.tied_embeddings);
  EXPECT_EQ(parse(with(gpt2(), {{"n_inner", 100}})).ffn, 100);
}

TEST(ModelConfig, ReadsRotaryScalingInBothForms) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 16}};
  const ModelConfig old_form = parse(with(llama(), {{"rope_theta", 500000.0}, {"rope_scaling", scaling}}));
  const ModelConfig new_form =
      parse(with(llama(), {{"rope_parameters", with(scaling, {{"rope_theta", 500000.0}})}}));
  for (const ModelConfig& config : {old_form, new_form}) {
    EXPECT_EQ(config.rope_theta, 500000);
    EXPECT_EQ(config.rope_scaling.factor, 8);
    EXPECT_EQ(config.rope_scaling.original_max_positions, 16);
  }
  EXPECT_EQ(parse(with(llama(), {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77.0}}}}))
                .rope_theta,
            77);
}

/// As transformers 5.24's GPTNeoXConfig.
TEST(ModelConfig, ReadsRotaryNamesOfGptNeox) {
  nlohmann::json file = {{"model_type", "gpt_neox"},      {"num_hidden_layers", 2},   {"hidden_size", 64},
                         {"intermediate_size", 128},      {"num_attention_heads", 4}, {"vocab_size", 256},
                         {"max_position_embeddings", 128}};
  const auto read = [&] { return parse_model_config(file.dump(), "x"); };
  EXPECT_EQ(read().rope_theta, 10000);
  file["rotary_emb_base"] = 500;
  file["rotary_pct"] = 0.5;
  EXPECT_EQ(read().rope_theta, 500);
  EXPECT_EQ(read().rotated(), 8);
  const ModelConfig back = parse_model_config(to_config_json(read()), "x");
  EXPECT_EQ(back.rope_theta, 500);
  EXPECT_EQ(back.rotated(), 8);
  file["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 77.0}};
  EXPECT_EQ(read().rope_theta, 77);
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
  EXPECT_EQ(a.rotary_pairs, RotaryPairs::neighbours);
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
    EXPECT_EQ(back.rope_theta, preset.rope_theta);
    EXPECT_EQ(back.rope_scaling.factor, preset.rope_scaling.factor);
    EXPECT_EQ(back.norm_epsilon, preset.norm_epsilon);
    EXPECT_EQ(back.max_positions, preset.max_positions);
    EXPECT_EQ(back.mixture, preset.mixture);
    EXPECT_EQ(back.latent, preset.latent);
  }
  const ModelConfig biased = parse(with(llama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(parse_model_config(to_config_json(biased), "x").linear_bias);
}

TEST(ModelConfig, RefusesWithFileKeyFoundAndExpected) {
  struct Case {
    json config;
    std::vector<const char*> fragments;
  };
  const std::vector<Case> cases = {
      {with(llama(), {{"model_type", "mambo"}}), {"model_type", "\"mambo\"", "llama, mistral, qwen2, gpt2"}},
      {without(llama(), "model_type"), {"model_type", "missing", "gpt2"}},
      {with(without(llama(), "model_type"), {{"architectures", {"BertModel"}}}),
       {"architectures", "BertModel", "Qwen2ForCausalLM"}},
      {with(llama(), {{"model_type", 3}}), {"model_type", "found 3", "text"}},
      {without(llama(), "hidden_size"), {"hidden_size", "missing"}},
      {without(llama(), "vocab_size"), {"vocab_size", "missing"}},
      {without(qwen(), "num_key_value_heads"), {"num_key_value_heads", "missing"}},
      {without(gpt2(), "n_embd"), {"n_embd", "missing"}},
      {with(llama(), {{"hidden_size", -64}}), {"hidden_size", "-64", "from 1"}},
      {with(llama(), {{"hidden_size", 0}}), {"hidden_size", "found 0"}},
      {with(llama(), {{"hidden_size", 64.5}}), {"hidden_size", "64.5", "whole number"}},
      {with(llama(), {{"hidden_size", "64"}}), {"hidden_size", "\"64\"", "whole number"}},
      {with(llama(), {{"hidden_size", {64}}}), {"hidden_size", "[64]"}},
      {with(llama(), {{"hidden_size", 18446744073709551615ULL}}), {"hidden_size", "18446744073709551615"}},
      {with(llama(), {{"num_hidden_layers", 2000000000}}), {"num_hidden_layers", "2000000000", "10000"}},
      {with(llama(), {{"num_attention_heads", 5}}), {"num_attention_heads", "found 5", "hidden_size 64"}},
      {with(llama(), {{"num_key_value_heads", 3}}), {"num_key_value_heads", "found 3", "divisor"}},
      {with(llama(), {{"num_key_value_heads", 8}}), {"num_key_value_heads", "found 8"}},
      {with(llama(), {{"head_dim", 15}}), {"head_dim", "found 15", "even"}},
      {with(llama(), {{"hidden_act", "mish"}}), {"hidden_act", "mish", "silu"}},
      {with(llama(), {{"rms_norm_eps", -1}}), {"rms_norm_eps", "-1"}},
      {with(llama(), {{"rope_theta", 0}}), {"rope_theta", "found 0"}},
      {with(llama(), {{"rope_theta", true}}), {"rope_theta", "true", "a number"}},
      {with(llama(), {{"tie_word_embeddings", 1}}), {"tie_word_embeddings", "true or false"}},
      {with(llama(), {{"rope_scaling", {{"type", "mrope"}, {"factor", 4}}}}),
       {"rope_scaling", "mrope", "llama3", "yarn"}},
      {with(llama(), {{"rope_scaling", {{"type", "yarn"}, {"factor", "4"}}}}), {"factor", "a number"}},
      {with(deepseek(), {{"model_type", "kimi_k2"}}), {"architectures"}},
      {{{"model_type", "mistral3"}, {"text_config", without(mistral(), "hidden_size")}},
       {"text_config.hidden_size", "missing"}},
      {{{"model_type", "x"}, {"text_config", with(mistral(), {{"model_type", "y"}})}},
       {"text_config.model_type", "\"y\""}},
      {with(llama(), {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4}}}}),
       {"low_freq_factor", "missing"}},
      {with(llama(), {{"rope_scaling", 8}}), {"rope_scaling", "found 8"}},
      {with(llama(), {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor", "0.5"}},
      {with(gpt2(), {{"activation_function", "mish"}}), {"activation_function", "mish", "gelu_new"}},
      {with(gpt2(), {{"n_head", 5}}), {"n_head", "found 5", "n_embd 48"}},
      {with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}), {"scale_attn_by_inverse_layer_idx"}},
      {with(llama(), {{"num_hidden_layers", 10000},
                      {"hidden_size", 1 << 20},
                      {"intermediate_size", 1 << 22},
                      {"num_attention_heads", 1 << 14},
                      {"num_key_value_heads", 1 << 14},
                      {"head_dim", 4096}}),
       {"parameters", "at most"}},
  };
  for (const Case& c : cases) {
    const std::string message = complaint(c.config.dump());
    EXPECT_THAT(message, HasSubstr("config.json: "));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    for (const char* fragment : c.fragments) EXPECT_THAT(message, HasSubstr(fragment));
  }
}

TEST(ModelConfig, FamiliesSetTheirSwitches) {
  const auto preset = [](const char* name) { return *find_preset(name); };
  const ModelConfig bloom = preset("bloom-560m");
  EXPECT_TRUE(bloom.positions == Positions::alibi && bloom.embedding_norm && bloom.linear_bias &&
              !bloom.alibi_scaled);
  const ModelConfig rw = preset("falcon-rw-1b");
  EXPECT_TRUE(rw.positions == Positions::alibi && rw.alibi_scaled && rw.block == Block::sequential);
  EXPECT_EQ(rw.activation, Activation::gelu_erf);
  EXPECT_EQ(preset("falcon-7b").block, Block::parallel_one_norm);
  EXPECT_EQ(preset("falcon-7b").kv_heads, 1);
  EXPECT_EQ(preset("falcon-40b").block, Block::parallel);
  EXPECT_EQ(preset("falcon-40b").kv_heads, 8);
  EXPECT_EQ(preset("baichuan-7b").positions, Positions::rotary);
  EXPECT_EQ(preset("baichuan-13b").positions, Positions::alibi);
  EXPECT_EQ(preset("galactica-125m").position_rows(), 2050);
  EXPECT_EQ(preset("starcoder").kv_heads, 1);
  const ModelConfig glm = preset("glm-4-9b");
  EXPECT_TRUE(glm.qkv_bias && !glm.linear_bias && glm.rotary_pairs == RotaryPairs::neighbours);
  EXPECT_EQ(glm.rotated(), 64);
  EXPECT_EQ(glm.rope_theta, 5e6);
  const ModelConfig gemma = parse(without(with(llama(), {{"model_type", "gemma"}}), "hidden_act"));
  EXPECT_TRUE(gemma.norm_less_one && gemma.tied_embeddings && gemma.activation == Activation::geglu);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.embedding_scale, 8);
  const ModelConfig nemotron = parse(with(llama(), {{"model_type", "nemotron"}, {"hidden_act", "relu2"}}));
  EXPECT_TRUE(nemotron.norm_less_one && nemotron.activation == Activation::squared_relu);
  EXPECT_EQ(nemotron.rotated(), 8);
  EXPECT_TRUE(parse(with(llama(), {{"model_type", "qwen3"}})).qk_norm);
  EXPECT_TRUE(preset("baichuan2-7b").normed_output && preset("baichuan2-13b").positions == Positions::alibi);
  EXPECT_FALSE(preset("baichuan-7b").normed_output);
  const ModelConfig phi = preset("phi-2");
  EXPECT_TRUE(phi.output_bias && phi.linear_bias && phi.block == Block::parallel_one_norm);
  EXPECT_EQ(phi.rotated(), 32);
  const ModelConfig glm1 = preset("chatglm-6b");
  EXPECT_TRUE(glm1.block_positions && glm1.positions == Positions::rotary && !glm1.tied_embeddings);
  EXPECT_NEAR(glm1.normed_residual, 7.4833, 1e-4);
  EXPECT_EQ(preset("glm-10b").position_rows(), 2050);
  EXPECT_EQ(preset("glm-10b").normed_residual, 0);
  EXPECT_EQ(preset("glm-130b").activation, Activation::geglu);
  EXPECT_FALSE(preset("glm-130b").block_positions);
}

TEST(ModelConfig, RefusesWhatAFamilysSwitchesDoNotCover) {
  const auto opt = [](const json& changes) {
    return with({{"model_type", "opt"},
                 {"hidden_size", 64},
                 {"ffn_dim", 96},
                 {"num_hidden_layers", 2},
                 {"vocab_size", 100},
                 {"num_attention_heads", 4},
                 {"max_position_embeddings", 32}},
                changes);
  };
  const auto chatglm = [](const json& changes) {
    return with({{"model_type", "chatglm"},
                 {"hidden_size", 64},
                 {"ffn_hidden_size", 96},
                 {"num_layers", 2},
                 {"padded_vocab_size", 100},
                 {"num_attention_heads", 4},
                 {"seq_length", 32}},
                changes);
  };
  EXPECT_EQ(complaint(opt(json::object()).dump()), "accepted");
  EXPECT_EQ(complaint(chatglm(json::object()).dump()), "accepted");
  const std::pair<json, std::vector<const char*>> cases[] = {
      {opt({{"do_layer_norm_before", false}}), {"do_layer_norm_before"}},
      {opt({{"layer_norm_elementwise_affine", false}}), {"layer_norm_elementwise_affine"}},
      {opt({{"word_embed_proj_dim", 32}}), {"word_embed_proj_dim", "found 32", "64"}},
      {opt({{"activation_function", "mish"}}), {"activation_function", "mish", "relu"}},
      {chatglm({{"position_encoding_2d", false}, {"vocab_size", 100}, {"max_sequence_length", 32}}),
       {"position_encoding_2d", "found false"}},
      {with(llama(), {{"model_type", "phi"}, {"hidden_act", "gelu_new"}, {"qk_layernorm", true}}),
       {"qk_layernorm"}},
      {{{"model_type", "chatglm"},
        {"position_encoding_2d", true},
        {"hidden_size", 36},
        {"num_layers", 2},
        {"vocab_size", 100},
        {"num_attention_heads", 6},
        {"max_sequence_length", 32}},
       {"num_attention_heads", "found 6", "halves"}},
      {chatglm({{"multi_query_attention", true}}), {"multi_query_group_num", "missing"}},
      {with(llama(), {{"model_type", "baichuan"}, {"vocab_size", 125696}, {"tie_word_embeddings", true}}),
       {"tie_word_embeddings", "normalised rows"}},
      {with(llama(), {{"model_type", "nemotron"}, {"hidden_act", "relu2"}, {"partial_rotary_factor", 0.1}}),
       {"partial_rotary_factor", "0.1", "even"}},
      {with(llama(), {{"model_type", "afmoe"}, {"num_experts", 8}}), {"num_experts", "mixture of experts"}},
      {with(llama(), {{"model_type", "mixtral"}, {"num_local_experts", 8}}),
       {"num_experts_per_tok", "missing"}},
      {with(llama(), {{"model_type", "mixtral"}, {"num_local_experts", 0}, {"num_experts_per_tok", 1}}),
       {"num_local_experts", "found 0"}},
      {with(llama(), {{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
       {"num_experts_per_tok", "found 5", "at most the 4"}},
      {with(llama(), {{"model_type", "mixtral"},
                      {"num_local_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"router_jitter_noise", 0.1}}),
       {"router_jitter_noise", "0 only"}},
      {with(llama(), {{"model_type", "qwen3_moe"},
                      {"num_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 16},
                      {"mlp_only_layers", {-1}}}),
       {"mlp_only_layers", "found -1"}},
      {with(llama(), {{"model_type", "qwen3_moe"},
                      {"num_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 16},
                      {"output_router_logits", true}}),
       {"output_router_logits", "found true"}},
      {with(llama(), {{"model_type", "deepseek_v9"}, {"kv_lora_rank", 512}, {"n_routed_experts", 256}}),
       {"kv_lora_rank", "latent attention"}},
      {deepseek({{"num_key_value_heads", 2}}), {"num_key_value_heads", "found 2", "the 4"}},
      {deepseek({{"n_group", 3}}), {"n_group", "found 3", "divisor of n_routed_experts 8"}},
      {deepseek({{"n_group", 8}}), {"n_group", "found 8", "two or more"}},
      {deepseek({{"n_group", 4}, {"topk_group", 1}}), {"topk_group", "found 1", "the 3 experts"}},
      {deepseek({{"n_group", 4}, {"topk_group", 5}}), {"topk_group", "found 5", "at most the 4"}},
      {deepseek({{"first_k_dense_replace", 3}}), {"first_k_dense_replace", "found 3"}},
      {deepseek({{"qk_rope_head_dim", 7}}), {"qk_rope_head_dim", "found 7", "even"}},
      {deepseek({{"scoring_func", "softmax"}}), {"scoring_func", "sigmoid only"}},
      {deepseek({{"topk_method", "greedy"}}), {"topk_method", "noaux_tc only"}},
      {deepseek({{"moe_layer_freq", 2}}), {"moe_layer_freq", "in between"}},
      {without(deepseek(), "q_lora_rank"), {"q_lora_rank", "missing", "null"}},
      {deepseek({{"num_local_experts", 4}}),
       {"num_local_experts", "found 4 with n_routed_experts 8", "the same"}},
      {deepseek({{"n_group", nullptr}}), {"n_group", "found null", "leave the key out for 8"}},
      {with(llama(),
            {{"model_type", "gemma"}, {"hidden_act", "gelu_pytorch_tanh"}, {"hidden_activation", "gelu"}}),
       {"hidden_activation", "found \"gelu\" with hidden_act \"gelu_pytorch_tanh\""}},
  };
  for (const auto& [config, fragments] : cases) {
    const std::string message = complaint(config.dump());
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    for (const char* fragment : fragments) EXPECT_THAT(message, HasSubstr(fragment));
  }
}

TEST(ModelConfig, RefusesTextThatIsNoJsonObject) {
  EXPECT_THAT(complaint(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"model_type\": \"llama\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("[1, 2]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(complaint("{\"hidden_size\": 1e999}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"a\":" + std::string(100'000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(complaint("{\"model_type\": \"\xff\xfe\"}"), HasSubstr("not valid JSON"));
}

TEST(ResolveModel, TakesPresetFileOrFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("plumbline_resolve_model." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << gpt2().dump();
  EXPECT_EQ(resolve_model("gpt2-124m").hidden, 768);
  EXPECT_EQ(resolve_model(folder.string()).hidden, 48);
  EXPECT_EQ(resolve_model((folder / "config.json").string()).name, (folder / "config.json").string());
  try {
    resolve_model("qwen2.5-05b");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean qwen2.5-0.5b?"));
  }
  EXPECT_THROW(load_model_config(folder.string()), InputError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plumbline
