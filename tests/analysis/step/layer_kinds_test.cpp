// A stage whose layers are of several kinds, in any order.
#include <gtest/gtest.h>

#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"

namespace plumbline::layer_kinds_test {
namespace {

/// A middle stage of Mixtral with these layers.
StageShape stage_of(const std::vector<AlikeLayers>& kinds) {
  RunConfig config;
  config.model = *find_preset("mixtral-8x7b");
  config.parallel.pipeline = config.parallel.world_size = 4;
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 4};
  StageShape shape = stage_shapes(config, 4)[1];
  shape.moe.dense_ffn = 4 * shape.mlp.ffn;
  shape.layers = 0;
  for (const AlikeLayers& alike : kinds) shape.layers += alike.layers;
  shape.kinds = kinds;
  shape.place.next_here = true;  // the last layer's output stays
  return shape;
}

constexpr LayerKind kDense{.dense = true};
constexpr LayerKind kExperts{};
constexpr LayerKind kWindow{.window = 128};

TEST(LayerKinds, AddUpInAnyOrder) {
  struct Case {
    std::vector<AlikeLayers> kinds;
    std::int64_t dense, experts;
    std::size_t runs;  // of layers with the same parameters
    bool windows = false;
  };
  const std::vector<Case> cases = {{{{5, kExperts}}, 0, 5, 1},
                                   {{{5, kDense}}, 5, 0, 1},
                                   {{{2, kDense}, {6, kExperts}}, 2, 6, 2},
                                   {{{2, kExperts}, {3, kWindow}, {1, kDense}}, 1, 5, 2, true},
                                   {{{5, kDense}, {5, kExperts}, {4, kDense}, {1, kExperts}}, 9, 6, 4}};
  const auto kept = [](const StageShape& shape) {
    return action_profile(shape, ActionType::forward).net[Category::activations].value;
  };
  const auto layer = [&](const auto& of, const LayerKind& kind) {
    return of(stage_of({{2, kind}})) - of(stage_of({{1, kind}}));
  };
  const auto flops = [](const StageShape& shape) { return stage_flops(shape).backward.value; };
  const auto parameters = [](const StageShape& shape) { return parameters_of(shape).total(); };
  for (const Case& c : cases) {
    const StageShape shape = stage_of(c.kinds);
    EXPECT_EQ(shape.alike_layers().size(), c.runs);
    EXPECT_EQ(shape.dense_layers(), c.dense);
    EXPECT_EQ(kept(shape) - kept(stage_of({})),
              c.dense * layer(kept, kDense) + c.experts * layer(kept, kExperts));
    EXPECT_EQ(parameters(shape),
              c.dense * layer(parameters, kDense) + c.experts * layer(parameters, kExperts));
    const double whole = static_cast<double>(c.dense) * layer(flops, kDense) +
                         static_cast<double>(c.experts) * layer(flops, kExperts);
    if (c.windows) {
      EXPECT_LT(flops(shape), whole);
    } else {
      EXPECT_DOUBLE_EQ(flops(shape), whole);
    }
  }
}

}  // namespace
}  // namespace plumbline::layer_kinds_test
