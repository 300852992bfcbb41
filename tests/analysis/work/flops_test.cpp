// FLOPs against closed forms.
#include "analysis/work/flops.hpp"

#include <gtest/gtest.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/operator_list.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::flops_test {
namespace {

TEST(Flops, ModelFlopsPerToken) {
  ModelConfig m = sample::tiny_qwen2().model;
  // Layer: qkv 8·16, projection 64, fc1 8·32, fc2 128 = 576; output 8·32.
  EXPECT_EQ(matmul_parameters(m), 2 * 576 + 256);
  EXPECT_DOUBLE_EQ(model_flops_per_token(m, 4).value, 6 * (2 * 576 + 256) + 6 * 2 * 8 * 4);
  // GPT-3 175B: 6·N within 3 % at s = 2048 (Narayanan et al. 2021 print 1 + s/6h + v/16Lh around 1).
  const ModelConfig* gpt3 = find_preset("gpt3-175b");
  if (gpt3 != nullptr) {
    EXPECT_NEAR(model_flops_per_token(*gpt3, 2048).value / (6 * 175e9), 1, 0.03);
  }
}

TEST(Flops, StageCallsAddUpToTheModel) {
  for (const bool gpt2 : {false, true}) {
    const RunConfig config = gpt2 ? sample::tiny_gpt2() : sample::tiny_qwen2();
    const auto tokens = static_cast<double>(config.batch.seq_length * config.batch.micro_batch_size);
    for (const int stages : {1, 2}) {
      double executed = 0;
      for (const StageShape& shape : stage_shapes(config, stages)) {
        const StageFlops flops = stage_flops(shape);
        executed += flops.forward.value + flops.backward.value;
      }
      // Hardware FLOPs have the scores once more: 2.5 instead of 2 times the forward of attention.
      const double scores = 0.5 * 2 * tokens * tokens * 8 * 2;
      EXPECT_DOUBLE_EQ(executed - scores,
                       model_flops_per_token(config.model, config.batch.seq_length).value * tokens);
    }
  }
}

struct ExecutedCase {
  const char* name;
  Recompute recompute;
  std::int64_t group;
  int stages;
  double again;  // FLOPs of one micro-batch beyond a plain B
};
// Four tokens: a layer's products forward are 2·4·576 without fc2's 2·4·128, attention 2·4·4·4·2.
constexpr double kScores = 2 * 4 * 4 * 4 * 2;
constexpr double kLayer = 2 * 4 * 576 + kScores;
constexpr double kWithoutFc2 = kLayer - 2 * 4 * 128;
constexpr ExecutedCase kExecutedCases[] = {
    {"selective: attention", Recompute::selective, 1, 1, 2 * kScores},
    {"full, layer by layer", Recompute::full, 1, 1, 2 * kWithoutFc2},
    {"full, both layers at once", Recompute::full, 2, 1, kLayer + kWithoutFc2},
    {"full, groups end with the stage", Recompute::full, 2, 2, 2 * kWithoutFc2},
};

TEST(Flops, ExecutedWithRecomputation) {
  RunConfig config = sample::tiny_qwen2();
  const double plain = executed_flops_per_token(config, 1).value * 4;
  EXPECT_DOUBLE_EQ(plain, model_flops_per_token(config.model, 4).value * 4 + 0.5 * 2 * kScores);
  for (const ExecutedCase& c : kExecutedCases) {
    SCOPED_TRACE(c.name);
    config.recompute.granularity = c.recompute;
    config.recompute.num_layers = c.group;
    EXPECT_DOUBLE_EQ(executed_flops_per_token(config, c.stages).value * 4, plain + c.again);
    const Throughput throughput =
        throughput_of(config, *find_hardware_preset("a100-sxm-80gb"), {1}, c.stages);
    EXPECT_DOUBLE_EQ(throughput.hfu / throughput.mfu,
                     (plain + c.again) / (model_flops_per_token(config.model, 4).value * 4));
  }
}

TEST(Flops, ATeacherAddsItsForward) {
  RunConfig config = sample::tiny_qwen2();
  const double model = model_flops_per_token(config).value;
  const double executed = executed_flops_per_token(config, 1).value;
  EXPECT_DOUBLE_EQ(model, model_flops_per_token(config.model, 4).value);
  config.recompute.granularity = Recompute::full;  // of the student only
  const double again = executed_flops_per_token(config, 1).value - executed;
  config.distillation.teacher = config.model;
  config.distillation.teacher->layers = 4;
  const double forward = model_flops_per_token(*config.distillation.teacher, 4).value / 3;
  EXPECT_DOUBLE_EQ(model_flops_per_token(config).value, model + forward);
  EXPECT_DOUBLE_EQ(executed_flops_per_token(config, 2).value, executed + again + forward);
}

TEST(Flops, SplitBackwardIsTheWhole) {
  RunConfig config = sample::tiny_gpt2();
  config.recompute.granularity = Recompute::full;
  const StageShape shape = stage_shapes(config, 1)[0];
  Flops parts;
  for (const OperatorCall& call : backward_input_calls(shape)) parts += flops_of(call);
  for (const OperatorCall& call : backward_weight_calls(shape)) parts += flops_of(call);
  EXPECT_DOUBLE_EQ(parts.value, stage_flops(shape).backward.value);
}

TEST(Flops, TensorRanksShareTheWork) {
  RunConfig config = sample::tiny_gpt2();
  const double whole = stage_flops(stage_shapes(config, 1)[0]).forward.value;
  config.parallel.tensor = 2;
  config.parallel.world_size = 2;
  config.parallel.make_vocab_size_divisible_by = 16;
  EXPECT_DOUBLE_EQ(stage_flops(stage_shapes(config, 1)[0]).forward.value * 2, whole);
}

}  // namespace
}  // namespace plumbline::flops_test
