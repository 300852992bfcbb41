// Full recomputation of a part of the layers: Megatron-LM's recompute_method block, torchtitan's
// selective_ac_option.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::partial_recomputation_test {
namespace {

using namespace frameworks;

RunConfig recomputing(RecomputeMethod method, std::int64_t layers, const std::string& software) {
  RunConfig config = gpt(software, 1, 1);
  config.recompute = {Recompute::full, method, layers, kCoreAttention};
  return config;
}

/// "-+-+": a layer that keeps its activations, one that is recomputed.
std::string layers_of(const StageShape& shape) {
  std::string text;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    text += shape.like(shape.kind_of(layer)).recomputation.granularity == Recompute::full ? '+' : '-';
  return text;
}

TEST(PartialRecomputation, LayersAreTheFirstOfAStageOrCountedOnARank) {
  struct Case {
    RecomputeMethod method;
    std::int64_t layers;
    int pipeline;
    const char* schedule;
    int chunks;
    std::vector<std::string> stages;
  };
  using enum RecomputeMethod;
  const Case cases[] = {
      {uniform, 3, 1, "1f1b", 1, {"++++++++"}},
      {block, 3, 1, "1f1b", 1, {"+++-----"}},
      {block, 9, 1, "1f1b", 1, {"++++++++"}},
      {block, 1, 2, "1f1b", 1, {"+---", "+---"}},
      {block, 1, 2, "interleaved", 2, {"+-", "+-", "+-", "+-"}},
      {interval, 1, 1, "1f1b", 1, {"++++++++"}},
      {interval, 2, 1, "1f1b", 1, {"-+-+-+-+"}},
      {interval, 3, 1, "1f1b", 1, {"--+--+--"}},
      {interval, 3, 2, "1f1b", 1, {"--+-", "--+-"}},                 // every rank counts from one
      {interval, 3, 2, "interleaved", 2, {"--", "--", "+-", "+-"}},  // through its stages
      {interval, 9, 1, "1f1b", 1, {"--------"}},
  };
  for (const Case& c : cases) {
    RunConfig config = recomputing(c.method, c.layers, "megatron-core");
    config.parallel.pipeline = c.pipeline;
    config.parallel.pp.schedule = c.schedule;
    config.parallel.pp.virtual_chunks = c.chunks;
    const std::vector<StageShape> shapes = stage_shapes(config, schedule_for(config));
    ASSERT_EQ(shapes.size(), c.stages.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(layers_of(shapes[i]), c.stages[i]) << i;
  }
}

// Bytes and time of a layer that is recomputed, and of one that is not, add up.
TEST(PartialRecomputation, MemoryAndTimeAreThoseOfItsLayers) {
  using enum RecomputeMethod;
  for (const char* const software : {"megatron-core", "torchtitan", "torchtitan-2025"}) {
    const auto at = [&](RecomputeMethod method, std::int64_t layers) {
      RunConfig config = recomputing(method, layers, software);
      config.model = *find_preset("llama-3.1-8b");
      config.batch.micro_batch_size = 1;
      const Prediction prediction = predicted(config);
      return std::pair(prediction.time.step.value, prediction.memory.peak.value);
    };
    RunConfig plain = recomputing(uniform, 1, software);
    plain.recompute.granularity = Recompute::none;
    plain.model = *find_preset("llama-3.1-8b");
    plain.batch.micro_batch_size = 1;
    const Prediction none = predicted(plain);
    const auto full = at(uniform, 1);
    EXPECT_EQ(at(block, 32), full) << software;
    EXPECT_EQ(at(interval, 1), full) << software;
    EXPECT_EQ(at(interval, 33), std::pair(none.time.step.value, none.memory.peak.value)) << software;
    const auto half = at(interval, 2);
    EXPECT_NEAR(half.first, (full.first + none.time.step.value) / 2, 0.005 * full.first) << software;
    EXPECT_NEAR(at(block, 16).first, half.first, 0.01 * full.first) << software;
    EXPECT_LT(full.second, half.second) << software;
    EXPECT_LT(half.second, none.memory.peak.value) << software;
    // Activations of a recomputed last layer come on top of those kept, which its backward finds all there.
    EXPECT_GE(half.second, at(block, 16).second) << software;
  }
}

// Modules of a block are not recomputed (multi_token_prediction.py: "Skipping recompute").
TEST(PartialRecomputation, LeavesOutPredictionModules) {
  RunConfig config = recomputing(RecomputeMethod::uniform, 1, "megatron-core");
  config.model = *find_preset("llama-3.1-8b");
  config.model.prediction_modules = 1;
  const auto bytes = [&] {
    const StageShape shape = first_shape(config);
    return framework_layer_bytes(shape.like(shape.module_kind()));
  };
  const std::int64_t recomputed = bytes();
  config.recompute.method = RecomputeMethod::block;
  const std::int64_t kept = bytes();
  config.recompute.granularity = Recompute::none;
  EXPECT_EQ(kept, bytes());
  EXPECT_LT(recomputed, kept);
}

TEST(PartialRecomputation, IsForOtherSoftware) {
  for (const RecomputeMethod method : {RecomputeMethod::block, RecomputeMethod::interval}) {
    RunConfig config = recomputing(method, 2, "plumbline");
    EXPECT_EQ(why_unpredictable(config).value_or("").find("recompute_method: found "), 0U);
    config.machine.software = "megatron-core";
    EXPECT_EQ(why_unpredictable(config).value_or(""), "");
  }
}

}  // namespace
}  // namespace plumbline::partial_recomputation_test
