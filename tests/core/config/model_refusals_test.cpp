// config.json files that are refused, in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/config/model_texts.hpp"

namespace plumbline::model_refusals_test {
namespace {

using namespace test;
using testing::HasSubstr;

struct Refused {
  json config;
  std::vector<const char*> fragments;
};

void expect_refused(const std::vector<Refused>& cases) {
  for (const Refused& c : cases) {
    const std::string message = complaint(c.config.dump());
    EXPECT_THAT(message, HasSubstr("config.json: "));
    EXPECT_THAT(message, testing::Not(HasSubstr("\n")));
    for (const char* fragment : c.fragments) EXPECT_THAT(message, HasSubstr(fragment));
  }
}

TEST(ModelRefusals, NameFileKeyFoundAndExpected) {
  const std::vector<Refused> cases = {
      {with(llama_json(), {{"model_type", "mambo"}}),
       {"model_type", "\"mambo\"", "llama, mistral, qwen2, gpt2"}},
      {without(llama_json(), "model_type"), {"model_type", "missing", "gpt2"}},
      {with(without(llama_json(), "model_type"), {{"architectures", {"BertModel"}}}),
       {"architectures", "BertModel", "Qwen2ForCausalLM"}},
      {with(llama_json(), {{"model_type", 3}}), {"model_type", "found 3", "text"}},
      {without(llama_json(), "hidden_size"), {"hidden_size", "missing"}},
      {without(llama_json(), "vocab_size"), {"vocab_size", "missing"}},
      {without(qwen(), "num_key_value_heads"), {"num_key_value_heads", "missing"}},
      {without(gpt2(), "n_embd"), {"n_embd", "missing"}},
      {with(llama_json(), {{"hidden_size", -64}}), {"hidden_size", "-64", "from 1"}},
      {with(llama_json(), {{"hidden_size", 0}}), {"hidden_size", "found 0"}},
      {with(llama_json(), {{"hidden_size", 64.5}}), {"hidden_size", "64.5", "whole number"}},
      {with(llama_json(), {{"hidden_size", "64"}}), {"hidden_size", "\"64\"", "whole number"}},
      {with(llama_json(), {{"hidden_size", {64}}}), {"hidden_size", "[64]"}},
      {with(llama_json(), {{"hidden_size", 18446744073709551615ULL}}),
       {"hidden_size", "18446744073709551615"}},
      {with(llama_json(), {{"num_hidden_layers", 2000000000}}), {"num_hidden_layers", "2000000000", "10000"}},
      {with(llama_json(), {{"num_attention_heads", 5}}),
       {"num_attention_heads", "found 5", "hidden_size 64"}},
      {with(llama_json(), {{"num_key_value_heads", 3}}), {"num_key_value_heads", "found 3", "divisor"}},
      {with(llama_json(), {{"num_key_value_heads", 8}}), {"num_key_value_heads", "found 8"}},
      {with(llama_json(), {{"head_dim", 15}}), {"head_dim", "found 15", "even"}},
      {with(llama_json(), {{"hidden_act", "mish"}}), {"hidden_act", "mish", "silu"}},
      {with(llama_json(), {{"rms_norm_eps", -1}}), {"rms_norm_eps", "-1"}},
      {with(llama_json(), {{"rope_theta", 0}}), {"rope_theta", "found 0"}},
      {with(llama_json(), {{"rope_theta", true}}), {"rope_theta", "true", "a number"}},
      {with(llama_json(), {{"tie_word_embeddings", 1}}), {"tie_word_embeddings", "true or false"}},
      {with(llama_json(), {{"rope_scaling", {{"type", "mrope"}, {"factor", 4}}}}),
       {"rope_scaling", "mrope", "llama3", "yarn"}},
      {with(llama_json(), {{"rope_scaling", {{"type", "yarn"}, {"factor", "4"}}}}), {"factor", "a number"}},
      {with(deepseek(), {{"model_type", "kimi_k2"}}), {"architectures"}},
      {{{"model_type", "mistral3"}, {"text_config", without(mistral(), "hidden_size")}},
       {"text_config.hidden_size", "missing"}},
      {{{"model_type", "x"}, {"text_config", with(mistral(), {{"model_type", "y"}})}},
       {"text_config.model_type", "\"y\""}},
      {with(llama_json(), {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4}}}}),
       {"low_freq_factor", "missing"}},
      {with(llama_json(), {{"rope_scaling", 8}}), {"rope_scaling", "found 8"}},
      {with(llama_json(), {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor", "0.5"}},
      {with(gpt2(), {{"activation_function", "mish"}}), {"activation_function", "mish", "gelu_new"}},
      {with(gpt2(), {{"n_head", 5}}), {"n_head", "found 5", "n_embd 48"}},
      {with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}), {"scale_attn_by_inverse_layer_idx"}},
      {with(llama_json(), {{"num_hidden_layers", 10000},
                           {"hidden_size", 1 << 20},
                           {"intermediate_size", 1 << 22},
                           {"num_attention_heads", 1 << 14},
                           {"num_key_value_heads", 1 << 14},
                           {"head_dim", 4096}}),
       {"parameters", "at most"}},
  };
  expect_refused(cases);
}

TEST(ModelRefusals, OfWhatAFamilysSwitchesDoNotCover) {
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
  const json mixtral =
      with(llama_json(), {{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  const json qwen3_moe = with(llama_json(), {{"model_type", "qwen3_moe"},
                                             {"num_experts", 4},
                                             {"num_experts_per_tok", 2},
                                             {"moe_intermediate_size", 16}});
  EXPECT_EQ(complaint(opt(json::object()).dump()), "accepted");
  EXPECT_EQ(complaint(chatglm(json::object()).dump()), "accepted");
  const std::vector<Refused> cases = {
      {opt({{"do_layer_norm_before", false}}), {"do_layer_norm_before"}},
      {opt({{"layer_norm_elementwise_affine", false}}), {"layer_norm_elementwise_affine"}},
      {opt({{"word_embed_proj_dim", 32}}), {"word_embed_proj_dim", "found 32", "64"}},
      {opt({{"activation_function", "mish"}}), {"activation_function", "mish", "relu"}},
      {chatglm({{"position_encoding_2d", false}, {"vocab_size", 100}, {"max_sequence_length", 32}}),
       {"position_encoding_2d", "found false"}},
      {with(llama_json(), {{"model_type", "phi"}, {"hidden_act", "gelu_new"}, {"qk_layernorm", true}}),
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
      {with(llama_json(),
            {{"model_type", "baichuan"}, {"vocab_size", 125696}, {"tie_word_embeddings", true}}),
       {"tie_word_embeddings", "normalised rows"}},
      {with(llama_json(),
            {{"model_type", "nemotron"}, {"hidden_act", "relu2"}, {"partial_rotary_factor", 0.1}}),
       {"partial_rotary_factor", "0.1", "even"}},
      {with(llama_json(), {{"model_type", "afmoe"}, {"num_experts", 8}}),
       {"model_type", "found \"afmoe\", Trinity"}},
      {without(mixtral, "num_experts_per_tok"), {"num_experts_per_tok", "missing"}},
      {with(mixtral, {{"num_local_experts", 0}}), {"num_local_experts", "found 0"}},
      {with(mixtral, {{"num_experts_per_tok", 5}}), {"num_experts_per_tok", "found 5", "at most the 4"}},
      {with(mixtral, {{"router_jitter_noise", 0.1}}), {"router_jitter_noise", "0 only"}},
      {with(qwen3_moe, {{"mlp_only_layers", {-1}}}), {"mlp_only_layers", "found -1"}},
      {with(qwen3_moe, {{"output_router_logits", true}}), {"output_router_logits", "found true"}},
      {with(llama_json(), {{"model_type", "deepseek_v9"}, {"kv_lora_rank", 512}, {"n_routed_experts", 256}}),
       {"model_type", "latent attention (kv_lora_rank)"}},
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
      {with(llama_json(),
            {{"model_type", "gemma"}, {"hidden_act", "gelu_pytorch_tanh"}, {"hidden_activation", "gelu"}}),
       {"hidden_activation", "found \"gelu\" with hidden_act \"gelu_pytorch_tanh\""}},
  };
  expect_refused(cases);
}

TEST(ModelRefusals, OfTextThatIsNoJsonObject) {
  EXPECT_THAT(complaint(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"model_type\": \"llama\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("[1, 2]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(complaint("{\"hidden_size\": 1e999}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"a\":" + std::string(100'000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(complaint("{\"model_type\": \"\xff\xfe\"}"), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace plumbline::model_refusals_test
