// Layers of a config.json with a sliding window, in transformers' reading of it; refusals.
#include "core/config/sliding_window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/config/model_config.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::sliding_window_test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A config.json of four layers with further keys.
std::string text_of(const char* architecture, const std::string& keys) {
  return R"({"model_type": ")" + std::string(architecture) +
         R"(", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 100,)"
         R"( "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,)"
         R"( "num_experts": 4,)"
         R"( "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16)" +
         (keys.empty() ? "" : ", ") + keys + "}";
}

std::vector<std::int64_t> windows_of(const ModelConfig& model) {
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) windows.push_back(model.window_of(layer));
  return windows;
}

struct Case {
  const char* architecture;
  const char* keys;
  std::vector<std::int64_t> windows;
};

// Every row: the reading of transformers 5.23; a null use_sliding_window was false before version 5, which
// refuses it.
const Case kCases[] = {
    {"mistral", "", {4096, 4096, 4096, 4096}},
    {"mistral", R"("sliding_window": null)", {0, 0, 0, 0}},
    {"mistral", R"("sliding_window": 40)", {40, 40, 40, 40}},  // more than there are positions
    {"mistral", R"("sliding_window": 1)", {1, 1, 1, 1}},
    {"mistral",
     R"("sliding_window": 8, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
        "sliding_attention"])",
     {8, 8, 8, 8}},
    {"mistral", R"("sliding_window": 8, "layer_types": null)", {8, 8, 8, 8}},
    {"mistral", R"("sliding_window": 8, "max_window_layers": 2, "use_sliding_window": false)", {8, 8, 8, 8}},
    {"qwen2", "", {0, 0, 0, 0}},
    {"qwen2", R"("sliding_window": 8)", {0, 0, 0, 0}},
    {"qwen2", R"("use_sliding_window": null, "sliding_window": 8, "max_window_layers": 0)", {0, 0, 0, 0}},
    {"qwen2", R"("use_sliding_window": false, "sliding_window": null)", {0, 0, 0, 0}},
    {"qwen2", R"("use_sliding_window": true)", {0, 0, 0, 0}},  // from the 28th layer on
    {"qwen2", R"("use_sliding_window": true, "max_window_layers": 2)", {0, 0, 4096, 4096}},
    {"qwen2", R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0)", {8, 8, 8, 8}},
    {"qwen2", R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3)", {0, 0, 0, 8}},
    {"qwen2", R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 4)", {0, 0, 0, 0}},
    {"qwen2", R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 0)", {0, 0, 0, 0}},
    {"qwen2",
     R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0, "layer_types":
        ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])",
     {0, 8, 0, 8}},
    {"qwen2",
     R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])",
     {0, 0, 0, 0}},
    {"qwen3_moe",
     R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 28)",
     {8, 8, 8, 8}},
    {"qwen3_moe", R"("use_sliding_window": true)", {4096, 4096, 4096, 4096}},
    {"qwen3_moe", R"("sliding_window": 8, "max_window_layers": 0)", {0, 0, 0, 0}},
    {"qwen2_moe", R"("use_sliding_window": true, "sliding_window": 8)", {8, 0, 8, 0}},
    {"qwen2_moe", R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1)", {8, 0, 0, 0}},
    {"qwen2_moe", R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0)", {0, 0, 0, 0}},
    {"qwen2_moe", R"("use_sliding_window": false, "sliding_window": 0)", {0, 0, 0, 0}},
    {"qwen2_moe",
     R"("use_sliding_window": true, "sliding_window": 8, "layer_types":
        ["full_attention", "full_attention", "sliding_attention", "sliding_attention"])",
     {0, 0, 8, 8}},
    {"qwen2_moe",
     R"("use_sliding_window": true, "sliding_window": 8, "layer_types":
        ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"])",
     {8, 8, 8, 8}},
    {"llama", R"("sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0)", {0, 0, 0, 0}},
};

TEST(SlidingWindow, OfEveryLayerAsTransformersReadsIt) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.architecture) + " " + c.keys);
    const ModelConfig model = parse_model_config(text_of(c.architecture, c.keys), "config.json");
    EXPECT_EQ(windows_of(model), c.windows);
    // The written text alone says the same, and is written the same again.
    const std::string written = to_config_json(model);
    const ModelConfig back = parse_model_config(written, "x");
    EXPECT_EQ(windows_of(back), c.windows);
    EXPECT_EQ(back.window.size, model.window.size);
    EXPECT_EQ(back.window.full_layers, model.window.full_layers);
    EXPECT_EQ(to_config_json(back), written);
  }
}

TEST(SlidingWindow, RefusesWithFileKeyFoundAndExpected) {
  struct Refused {
    const char* architecture;
    std::string keys;
    std::vector<const char*> fragments;
  };
  const std::string qwen = R"("use_sliding_window": true, "max_window_layers": 0, )";
  const Refused cases[] = {
      {"mistral", R"("sliding_window": 0)", {"sliding_window: found 0", "from 1 to 1073741824"}},
      {"mistral", R"("sliding_window": -1)", {"sliding_window: found -1", "from 1"}},
      {"mistral", R"("sliding_window": 8.5)", {"sliding_window: found 8.5", "whole number"}},
      {"mistral", R"("sliding_window": 8.0)", {"sliding_window: found 8.0", "whole number"}},
      {"mistral", R"("sliding_window": "8")", {"sliding_window: found \"8\"", "whole number"}},
      {"mistral", R"("sliding_window": true)", {"sliding_window: found true", "whole number"}},
      {"mistral", R"("sliding_window": [8])", {"sliding_window: found [8]", "whole number"}},
      {"mistral",
       R"("sliding_window": 18446744073709551615)",
       {"sliding_window: found 18446744073709551615"}},
      {"mistral", R"("sliding_window": 9223372036854775807)", {"sliding_window: found 9223372036854775807"}},
      {"mistral",
       R"("sliding_window": null, "layer_types": ["full_attention", "full_attention", "full_attention",
          "sliding_attention"])",
       {"layer_types: found sliding_attention", "without a window", "full_attention only"}},
      {"qwen3_moe",
       qwen + R"("sliding_window": 8, "layer_types": ["full_attention", "sliding_attention",
          "sliding_attention", "sliding_attention"])",
       {"layer_types: found full_attention in a qwen3_moe with sliding_window 8"}},
      {"mistral",
       R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"])",
       {"layer_types: found full_attention", "sliding_window 4096", "sliding_attention only"}},
      {"qwen2", R"("sliding_window": 0)", {"sliding_window: found 0"}},
      {"qwen2", qwen + R"("sliding_window": -5)", {"sliding_window: found -5"}},
      {"qwen2", R"("use_sliding_window": 1)", {"use_sliding_window: found 1", "true or false"}},
      {"qwen2", R"("max_window_layers": -1)", {"max_window_layers: found -1", "from 0"}},
      {"qwen2",
       R"("max_window_layers": null)",
       {"max_window_layers: found null", "leave the key out for 28"}},
      {"qwen2", R"("max_window_layers": "2")", {"max_window_layers: found \"2\"", "whole number"}},
      {"qwen2", qwen + R"("layer_types": [])", {"layer_types: found 0 entries", "4 layers"}},
      {"qwen2", qwen + R"("layer_types": ["full_attention"])", {"layer_types: found 1 entries", "4 layers"}},
      {"qwen2", qwen + R"("layer_types": "full_attention")", {"layer_types", "full_attention", "a list"}},
      {"qwen2", qwen + R"("layer_types": {"0": "full_attention"})", {"layer_types", "a list"}},
      {"qwen2",
       qwen + R"("layer_types": ["full_attention", "full_attention", "chunked_attention", "full_attention"])",
       {"layer_types[2]: found \"chunked_attention\"", "full_attention or sliding_attention"}},
      {"qwen2",
       qwen + R"("layer_types": ["full_attention", "\n\u0007", "full_attention", "full_attention"])",
       {"layer_types[1]: found"}},
      {"qwen2",
       qwen + R"("layer_types": ["full_attention", 3, "full_attention", "full_attention"])",
       {"layer_types[1]: found 3", "a text"}},
      {"qwen2",
       R"("layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"])",
       {"layer_types: found sliding_attention with use_sliding_window false", "use_sliding_window true"}},
      {"qwen2",
       qwen + R"("sliding_window": null, "layer_types": ["full_attention", "sliding_attention",
          "full_attention", "full_attention"])",
       {"layer_types: found sliding_attention with sliding_window null"}},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(std::string(c.architecture) + " " + c.keys);
    try {
      parse_model_config(text_of(c.architecture, c.keys), "config.json");
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("config.json: "));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      for (const char* fragment : c.fragments) EXPECT_THAT(error.what(), HasSubstr(fragment));
    }
  }
}

// The diagonal cuts through the cell of a query's own key, which is half a cell less. The window's other edge
// cuts through the cell of the last key that it hides: half a cell more in rows that hide any.
TEST(SlidingWindow, KeysOfAQueryAreCountedAsAnArea) {
  for (const std::int64_t seq : {1, 7, 60, 500}) {
    for (const std::int64_t window : {1, 3, 7, 40, 60, 5000}) {
      double pairs = 0;
      for (std::int64_t i = 0; i < seq; ++i) {
        std::int64_t seen = 0;
        for (std::int64_t j = 0; j < seq; ++j) seen += i - window < j && j <= i ? 1 : 0;
        pairs += static_cast<double>(seen) - 0.5 + (seen <= i ? 0.5 : 0);
      }
      EXPECT_DOUBLE_EQ(keys_per_query(seq, window) * static_cast<double>(seq), pairs) << seq << " " << window;
    }
    EXPECT_EQ(keys_per_query(seq, 0), static_cast<double>(seq) / 2);
    EXPECT_EQ(keys_per_query(seq, seq), static_cast<double>(seq) / 2);
  }
}

// A prefix adds the triangle above the diagonal.
TEST(SlidingWindow, KeysThatAPrefixAdds) {
  for (const std::int64_t prefix : {0, 1, 30, 60}) {
    double pairs = 0;
    for (std::int64_t i = 0; i < 60; ++i) {
      for (std::int64_t j = 0; j < 60; ++j)
        pairs += j == i && i >= prefix ? 0.5 : j <= i || j < prefix ? 1 : 0;
    }
    EXPECT_DOUBLE_EQ(keys_per_query(60, 0, prefix) * 60, pairs) << prefix;
  }
}

TEST(SlidingWindow, MeanOverTheLayers) {
  ModelConfig model = parse_model_config(
      text_of("qwen2", R"("use_sliding_window": true, "sliding_window": 10, "max_window_layers": 3)"), "x");
  EXPECT_DOUBLE_EQ(model.mean_keys(40), (3 * 20 + (10 - 100.0 / 80)) / 4);
  EXPECT_EQ(model.mean_keys(10), 5);
  EXPECT_EQ(model.mean_keys(4), 2);
  // A layer is less work beside the output layer than it would be if it saw everything.
  RunConfig config;
  config.model = model;
  config.batch.seq_length = 4000;
  const double with = output_layer_in_layers(config);
  config.model.window.size = 0;
  EXPECT_GT(with, output_layer_in_layers(config));
}

}  // namespace
}  // namespace plumbline::sliding_window_test
