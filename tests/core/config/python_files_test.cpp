// Files of config.json as transformers 5 writes them, and of models that no family has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.hpp"
#include "core/config/model_config.hpp"

namespace plumbline::python_files_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json experts() {
  return {{"model_type", "new_moe"},       {"num_hidden_layers", 4},      {"hidden_size", 64},
          {"num_attention_heads", 4},      {"num_key_value_heads", 2},    {"head_dim", 16},
          {"intermediate_size", 96},       {"moe_intermediate_size", 24}, {"n_routed_experts", 8},
          {"n_shared_experts", 1},         {"num_experts_per_tok", 2},    {"norm_topk_prob", true},
          {"routed_scaling_factor", 1.0},  {"first_k_dense_replace", 1},  {"vocab_size", 100},
          {"max_position_embeddings", 32}, {"dtype", "bfloat16"},         {"tie_word_embeddings", false}};
}

json with(json file, const json& more) {
  file.update(more);
  return file;
}

ModelConfig parse(const std::string& text) {
  return parse_model_config(text, "config.json");
}

TEST(PythonFiles, NumbersOutsideOfJsonAreRead) {
  const std::string plain = with(experts(), {{"model_type", "glm4_moe"}}).dump();
  for (const char* more : {R"("time_step_limit": [0.0, Infinity], )", R"("a": NaN, "b": -Infinity, )",
                           R"("a \"Infinity\\": "NaN", )"}) {
    std::string text = plain;
    text.insert(1, more);
    EXPECT_EQ(parse(text).parameters(), parse(plain).parameters()) << more;
  }
  std::string text = plain;
  text.insert(1, "\"rope_theta\": NaN, ");
  EXPECT_THAT([&] { parse(text); }, testing::ThrowsMessage<InputError>(HasSubstr("rope_theta: found \"?\"")));
}

TEST(PythonFiles, ListsOfKindsAreHybridPatterns) {
  json file = {{"model_type", "nemotron_h"},
               {"hidden_size", 64},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"head_dim", 16},
               {"intermediate_size", 96},
               {"vocab_size", 100},
               {"mamba_num_heads", 8},
               {"mamba_head_dim", 16},
               {"n_groups", 2},
               {"ssm_state_size", 8},
               {"moe_intermediate_size", 24},
               {"n_routed_experts", 8},
               {"num_experts_per_tok", 3},
               {"n_shared_experts", 1},
               {"max_position_embeddings", 32}};
  const std::int64_t expected =
      parse(with(file, {{"num_hidden_layers", 4}, {"hybrid_override_pattern", "M*-E"}}).dump()).parameters();
  for (const json& more :
       {json{{"layers_block_type", {"mamba", "attention", "mlp", "moe"}}},
        json{{"layers_block_type", {"linear_attention", "full_attention", "mlp", "moe"}}},
        json{{"layer_types", {"mamba", "attention", "mlp", "moe"}}, {"num_hidden_layers", 4}}}) {
    const ModelConfig model = parse(with(file, more).dump());
    EXPECT_EQ(model.layers, 4);
    EXPECT_EQ(model.parameters(), expected) << more;
    EXPECT_EQ(parse(to_config_json(model)).parameters(), expected);
  }
  EXPECT_THAT(
      [&] {
        parse(with(file, {{"layers_block_type", {"mamba", "conv"}}}).dump());
      },
      testing::ThrowsMessage<InputError>(HasSubstr("layers_block_type: found \"conv\"")));
}

// The class of Granite 4 has 2048 positions by itself, and names Mamba mixers linear attention.
TEST(PythonFiles, GraniteIsReadAsItsClassWritesIt) {
  const json granite = {{"model_type", "granitemoehybrid"},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 64},
                        {"num_attention_heads", 4},
                        {"num_local_experts", 0},
                        {"intermediate_size", 96},
                        {"shared_intermediate_size", 96},
                        {"vocab_size", 100},
                        {"mamba_n_heads", 8},
                        {"mamba_d_head", 16},
                        {"mamba_n_groups", 1},
                        {"mamba_d_state", 8},
                        {"layer_types", {"linear_attention", "full_attention"}}};
  EXPECT_EQ(parse(granite.dump()).position.max, 2048);
  EXPECT_EQ(parse(granite.dump()).mamba_layers(), 1);
  EXPECT_EQ(parse(granite.dump()).parameters(),
            parse(with(granite, {{"layer_types", {"mamba", "attention"}}}).dump()).parameters());
}

TEST(PythonFiles, KindsOfMlpsTellDenseLayers) {
  const json known = with(experts(), {{"model_type", "glm4_moe"}});
  json listed = with(known, {{"mlp_layer_types", {"dense", "dense", "sparse", "sparse"}}});
  EXPECT_EQ(parse(listed.dump()).mixture.first_dense, 2);
  EXPECT_EQ(parse(listed.dump()).parameters(),
            parse(with(known, {{"first_k_dense_replace", 2}}).dump()).parameters());
  listed["mlp_layer_types"] = {"dense", "sparse", "dense", "sparse"};
  EXPECT_THAT(
      [&] { parse(listed.dump()); },
      testing::ThrowsMessage<InputError>(HasSubstr("expected dense layers, then sparse ones, 4 in all")));
}

// upstage/Solar-Open-100B: Llama's attention, GLM-4.5's experts; 6144 parameters are biases of routers.
TEST(PythonFiles, KnownLayersOfANewNameAreTakenByTheirKeys) {
  const ModelConfig solar = parse(R"({"architectures":["SolarOpenForCausalLM"],"model_type":"solar_open",
      "partial_rotary_factor":1.0,"hidden_size":4096,"num_hidden_layers":48,"num_attention_heads":64,
      "head_dim":128,"num_key_value_heads":8,"vocab_size":196608,"intermediate_size":10240,
      "moe_intermediate_size":1280,"rms_norm_eps":1e-05,"rope_theta":1000000,"max_position_embeddings":131072,
      "n_routed_experts":128,"n_shared_experts":1,"norm_topk_prob":true,"routed_scaling_factor":1.0,
      "num_experts_per_tok":8,"tie_word_embeddings":false,"first_k_dense_replace":0,
      "rope_scaling":{"type":"yarn","factor":2.0,"original_max_position_embeddings":65536}})");
  EXPECT_EQ(solar.parameters(), 102'651'793'408 + 6144);
  EXPECT_THAT(solar.predicted.names,
              HasSubstr("an unknown model_type, solar_open, read as glm4_moe by its keys"));
  const ModelConfig again = parse(to_config_json(solar));
  EXPECT_EQ(again.predicted, solar.predicted);
  EXPECT_EQ(again.parameters(), solar.parameters());
  // A known name for these layers.
  EXPECT_EQ(parse(experts().dump()).parameters(),
            parse(with(experts(), {{"model_type", "glm4_moe"}}).dump()).parameters());
  EXPECT_EQ(parse(with(experts(), {{"model_type", "glm4_moe"}}).dump()).predicted.names, "");
}

TEST(PythonFiles, UnknownModelsAreRefusedByNameAndByWhatIsMissing) {
  struct Case {
    json more;
    const char* name;
    const char* missing;
  };
  for (const Case& each :
       {Case{{{"zero_expert_num", 4}}, "\"new_moe\"", "with zero_expert_num, which glm4_moe does not have"},
        {{{"partial_rotary_factor", 2.0}},
         "\"new_moe\"",
         "as glm4_moe it is refused: config.json: partial_rotary"},
        {{{"n_routed_experts", nullptr}, {"num_experts", 8}},
         "\"new_moe\"",
         "mixture of experts (num_experts) is of no known family"},
        {{{"model_type", "gemma4_text"}}, "\"gemma4_text\"", "Gemma 4"},
        {{{"model_type", "exaone_moe"}}, "\"exaone_moe\"", "K-EXAONE"},
        {{{"model_type", "step3p7"}}, "\"step3p7\"", "Step 3.7"},
        {{{"model_type", "afmoe"}}, "\"afmoe\"", "gate on its result"},
        {{{"model_type", "nemotron-nas"}}, "\"nemotron-nas\"", "block_configs"}}) {
    EXPECT_THAT([&] { parse(with(experts(), each.more).dump()); },
                testing::ThrowsMessage<InputError>(
                    AllOf(HasSubstr("model_type: found "), HasSubstr(each.name), HasSubstr(each.missing),
                          HasSubstr("supported: llama"), testing::Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace plumbline::python_files_test
