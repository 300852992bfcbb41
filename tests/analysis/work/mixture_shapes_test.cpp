// Sizes of large MoE models: memory of a rank's stages and FLOPs of a token, against published figures.
#include <gtest/gtest.h>

#include <cstdint>

#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline::mixture_shapes_test {
namespace {

/// Trained parameters of all stages and tensor ranks add up to the model's, except those that every tensor
/// rank has whole.
TEST(MixtureShapes, StagesHoldTheModelToTheParameter) {
  for (const char* name : {"deepseek-v3", "kimi-k2", "mixtral-8x22b", "qwen2-57b-a14b", "qwen3-235b-a22b"}) {
    for (const int stages : {1, 4, 15}) {
      RunConfig config;
      config.model = *find_preset(name);
      config.parallel.make_vocab_size_divisible_by = 1;
      config.parallel.pipeline = config.parallel.world_size = stages;
      std::int64_t whole = 0;
      std::int64_t units = 0;
      for (const StageShape& shape : stage_shapes(config, stages)) {
        whole += parameters_of(shape).total();
        units += elements_of(shape).whole();
      }
      EXPECT_EQ(whole, config.model.parameters() - config.model.expert_biases()) << name << " " << stages;
      EXPECT_EQ(units, whole) << name << " " << stages;
    }
  }
}

TEST(MixtureShapes, FirstLayersOfDeepseekAreDense) {
  RunConfig config;
  config.model = *find_preset("deepseek-v3");
  config.parallel.pipeline = config.parallel.world_size = 31;  // two layers per stage, except for one
  const std::vector<StageShape> shapes = stage_shapes(config, 31);
  EXPECT_EQ(shapes[0].dense_layers(), shapes[0].layers);
  EXPECT_EQ(shapes[0].dense_layers() + shapes[1].dense_layers(), 3);
  EXPECT_EQ(shapes[2].dense_layers(), 0);
  const StageShape dense = shapes[1].like(shapes[1].kind_of(0));
  EXPECT_FALSE(dense.mixture());
  EXPECT_EQ(dense.mlp.ffn, 18432);
  EXPECT_EQ(feed_forward_matrices(dense), 3 * 7168 * 18432);
  const StageShape experts = shapes[1].like(shapes[1].kind_of(1));
  EXPECT_EQ(feed_forward_matrices(experts), 257LL * 3 * 7168 * 2048 + 256 * 7168);
}

/// TFLOP/s over tokens/s of Megatron-Bridge's performance tables, without an MTP module.
TEST(MixtureShapes, FlopsPerTokenArePublishedOnes) {
  struct Case {
    const char* model;
    std::int64_t tokens;
    double gflops;
  };
  for (const Case& c : {Case{"deepseek-v3", 4096, 249.1}, Case{"qwen3-30b-a3b", 4096, 23.0},
                        Case{"qwen3-235b-a22b", 4096, 148.0}, Case{"kimi-k2", 4096, 204.3}}) {
    EXPECT_NEAR(model_flops_per_token(*find_preset(c.model), c.tokens).value / (c.gflops * 1e9), 1, 0.015)
        << c.model;
  }
}

}  // namespace
}  // namespace plumbline::mixture_shapes_test
