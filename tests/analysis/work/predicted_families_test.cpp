// Families that are predicted and not executed (core/config/families/predicted_families.cpp): parameters of
// all stages, FLOPs of chunks and of MTP modules.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline::predicted_families_test {
namespace {

using nlohmann::json;

/// Stages of drawn files (draw_counts.py) hold the model to the parameter, whatever the software.
TEST(PredictedFamilies, StagesHoldTheModelToTheParameter) {
  std::ifstream in(std::string(PLUMBLINE_SOURCE_DIR) + "/tests/core/config/counted_files.json");
  std::string line;
  std::getline(in, line);  // the source
  std::int64_t count = 0;
  while (std::getline(in, line)) {
    SCOPED_TRACE(line);
    const json entry = json::parse(line);
    json file = entry.at("file");
    file["model_type"] = entry.at("family");
    RunConfig config;
    config.model = parse_model_config(file.dump(), "config.json");
    config.parallel.make_vocab_size_divisible_by = 1;
    config.batch.seq_length = 32;
    for (const char* software : {"plumbline", "megatron-core"}) {
      config.machine.software = software;
      for (const int stages : {1, 3}) {
        if (stages > config.model.layers) continue;
        config.parallel.pipeline = config.parallel.world_size = stages;
        std::int64_t whole = 0;
        std::int64_t units = 0;
        for (const StageShape& shape : stage_shapes(config, stages)) {
          whole += parameters_of(shape).total();
          units += elements_of(shape).whole();
        }
        // Tied embeddings stand on the first and on the last stage.
        const bool twice = config.model.embedding.tied && stages > 1;
        const std::int64_t more = twice ? config.model.vocab * config.model.hidden : 0;
        EXPECT_EQ(whole - more, config.model.parameters() - config.model.expert_biases()) << stages;
        EXPECT_EQ(units, whole) << stages;
      }
    }
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(PredictedFamilies, ChunksHaveTheirPairs) {
  EXPECT_DOUBLE_EQ(keys_per_chunk(8, 4), 2);
  EXPECT_DOUBLE_EQ(keys_per_chunk(10, 4), (2 * 8 + 2) / 10.0);
  EXPECT_DOUBLE_EQ(keys_per_chunk(4, 8), 2);
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.model.window.size = 8192;
  config.model.predicted.chunked = true;
  config.model.window.full_layers.assign(32, false);
  config.model.window.full_layers[3] = true;
  config.batch.seq_length = 8 * 8192;
  const std::vector<StageShape> shapes = stage_shapes(config, 1);
  EXPECT_EQ(shapes[0].kind_of(3).window, 0);
  const double seen = keys_per_query(8 * 8192, shapes[0].kind_of(0).window);
  EXPECT_NEAR(seen / 4096, 1, 2e-4);
  EXPECT_DOUBLE_EQ(config.model.mean_keys(8 * 8192), (31 * 4096.0 + 4 * 8192) / 32);
}

/// DeepSeek-V3's module: a layer, the product of two streams, and the output layer.
TEST(PredictedFamilies, FlopsIncludeModulesWhateverTheSoftware) {
  for (const char* software : {"plumbline", "megatron-core"}) {
    RunConfig config;
    config.model = *find_preset("deepseek-v3");
    config.machine.software = software;
    config.batch.seq_length = 4096;
    const double without = model_flops_per_token(config).value;
    config.model.prediction_modules = 1;
    EXPECT_NEAR(model_flops_per_token(config).value / without, 1.043, 0.005) << software;
  }
}

}  // namespace
}  // namespace plumbline::predicted_families_test
