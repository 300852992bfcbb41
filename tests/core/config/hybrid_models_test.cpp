// Hybrid models: layers with Mamba mixers, with attention, or with a feed-forward layer alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/compatibility.hpp"
#include "core/config/model_config.hpp"

namespace plumbline::hybrid_models_test {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

json small() {
  return {{"model_type", "nemotron_h"},
          {"num_hidden_layers", 5},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"intermediate_size", 96},
          {"vocab_size", 100},
          {"max_position_embeddings", 32},
          {"mamba_num_heads", 8},
          {"mamba_head_dim", 16},
          {"n_groups", 2},
          {"ssm_state_size", 8},
          {"conv_kernel", 4},
          {"chunk_size", 16},
          {"moe_intermediate_size", 24},
          {"n_routed_experts", 8},
          {"num_experts_per_tok", 3},
          {"n_shared_experts", 1},
          {"moe_shared_expert_intermediate_size", 40},
          {"moe_latent_size", 32},
          {"hybrid_override_pattern", "ME*-M"}};
}

ModelConfig parse(const json& file) {
  return parse_model_config(file.dump(), "config.json");
}

// Counted layer by layer: mixers as in Megatron-Core's mamba_mixer.py, experts as in its moe_layer.py.
TEST(HybridModels, AreCountedLayerByLayer) {
  const ModelConfig model = parse(small());
  const std::int64_t mamba = 64 * (2 * 128 + 2 * 2 * 8 + 8) + 128 * 64  // products
                             + (128 + 2 * 2 * 8) * (4 + 1)              // convolution
                             + 3 * 8 + 128;                             // A, D, steps; norm
  const std::int64_t attention = 64 * (64 + 2 * 32) + 64 * 64;
  const std::int64_t dense = 2 * 64 * 96;
  const std::int64_t around = 64 * 8 + 8 + 2 * 64 * 32 + 2 * 64 * 40;  // router, latent, shared expert
  const std::int64_t expert = 2 * 32 * 24;
  const std::int64_t rest = 6 * 64 + 2 * 100 * 64;  // a norm in each layer and behind the last
  EXPECT_EQ(model.parameters(), 2 * mamba + attention + dense + around + 8 * expert + rest);
  EXPECT_EQ(model.active_parameters(), model.parameters() - 5 * expert);
  EXPECT_EQ(model.attention_layers(), 1);
  EXPECT_EQ(model.mamba_layers(), 2);
  EXPECT_EQ(model.feed_forward_layers(), 2);
  EXPECT_EQ(model.mixture_layers(), 1);
}

// As their makers round them: 31.6 B with 3.6 B active, 120 B with 12 B, 550 B with 55 B.
TEST(HybridModels, PresetsHaveThePublishedSizes) {
  struct Case {
    const char* name;
    double parameters, active;  // in thousand millions
  };
  for (const Case& each : {Case{"nemotron-3-nano-30b-a3b", 31.6, 3.6},
                           {"nemotron-3-super-120b-a12b", 120.7, 12.8},
                           {"nemotron-3-ultra-550b-a55b", 549.3, 56.1}}) {
    const ModelConfig* model = find_preset(each.name);
    ASSERT_NE(model, nullptr) << each.name;
    EXPECT_NEAR(static_cast<double>(model->parameters()) / 1e9, each.parameters, 0.05) << each.name;
    EXPECT_NEAR(static_cast<double>(model->active_parameters()) / 1e9, each.active, 0.05) << each.name;
    EXPECT_TRUE(parse(json::parse(to_config_json(*model))).hybrid == model->hybrid) << each.name;
  }
}

// Granite 4: each layer has a mixer and a feed-forward layer.
TEST(HybridModels, GranitesMixersStandBesideFeedForwardLayers) {
  json file = {{"model_type", "granitemoehybrid"},
               {"num_hidden_layers", 3},
               {"hidden_size", 64},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"intermediate_size", 96},
               {"shared_intermediate_size", 96},
               {"vocab_size", 100},
               {"max_position_embeddings", 32},
               {"mamba_n_heads", 8},
               {"mamba_n_groups", 1},
               {"mamba_d_state", 16},
               {"mamba_d_head", "auto"},
               {"mamba_expand", 2},
               {"mamba_d_conv", 4},
               {"layer_types", {"mamba", "attention", "mamba"}}};
  const ModelConfig hybrid = parse(file);
  EXPECT_EQ(hybrid.mamba_layers(), 2);
  EXPECT_EQ(hybrid.feed_forward_layers(), 3);
  EXPECT_EQ(hybrid.hybrid.mamba.head_dim, 16);
  file["layer_types"] = {"mamba", "attention", "retention"};
  EXPECT_THROW(parse(file), InputError);
  file["layer_types"] = {"attention", "attention", "attention"};
  const ModelConfig plain = parse(file);
  EXPECT_FALSE(plain.hybrid);
  const std::int64_t mamba = 64 * (2 * 128 + 2 * 16 + 8) + 128 * 64 + (128 + 32) * 5 + 3 * 8 + 128;
  const std::int64_t attention = 64 * (64 + 2 * 32) + 64 * 64;
  EXPECT_EQ(hybrid.parameters() - plain.parameters(), 2 * (mamba - attention));
}

TEST(HybridModels, BadFilesAreRefusedInOneLine) {
  struct Case {
    json changes;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{{"hybrid_override_pattern", "ME*-"}}, "found 4 letters, expected one for each of the 5 layers"},
      {{{"hybrid_override_pattern", "ME*-X"}},
       "hybrid_override_pattern: found \"ME*-X\", expected M, *, - and E"},
      {{{"n_groups", 3}}, "n_groups: found 3, expected a divisor of the 8 heads of mamba_num_heads"},
      {{{"mamba_num_heads", 0}}, "mamba_num_heads"},
      {{{"num_experts_per_tok", 9}}, "num_experts_per_tok"},
      {{{"mlp_bias", true}}, "mlp_bias"},
  };
  for (const Case& each : cases) {
    json file = small();
    file.update(each.changes);
    try {
      parse(file);
      ADD_FAILURE() << "accepted " << each.changes;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.says));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(HybridModels, TensorRanksHaveWholeHeadsAndGroups) {
  const ModelConfig model = parse(small());
  EXPECT_FALSE(why_tensor_split_invalid(model, 2));
  EXPECT_THAT(why_tensor_split_invalid(model, 4).value_or(""), HasSubstr("a divisor of the 2 Mamba groups"));
}

}  // namespace
}  // namespace plumbline::hybrid_models_test
