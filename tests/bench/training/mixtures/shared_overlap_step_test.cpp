// A shared expert's products alongside row exchanges. Losses, gradients and traffic equal those of the step
// without, bit for bit; memory is as predicted, after every action and at its peak, on every rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/bench/training/mixtures/hidden_exchanges.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::shared_overlap_step_test {
namespace {

struct SharedCase {
  Layout layout;  // tensor, pipeline, data
  const char* schedule;
  bool gated = true;  // qwen2_moe's; else DeepSeek's
  int zero = 0;
  DType precision = DType::fp32;
  Recompute recomputed = Recompute::none;  // selective: whole MoE layers
  bool sequences = true;                   // with tensor ranks
  int slices = 0;
  int expert = 2;
  double capacity = 0;
};
constexpr SharedCase kSharedCases[] = {
    {.layout = {1, 1, 2}, .schedule = "1f1b"},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 2, .precision = DType::bf16},
    {.layout = {1, 1, 2},
     .schedule = "zb-h1",
     .gated = false,
     .precision = DType::bf16,
     .recomputed = Recompute::selective},
    {.layout = {1, 1, 2}, .schedule = "gpipe", .gated = false, .zero = 3, .recomputed = Recompute::full},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .zero = 2, .capacity = 1},
    {.layout = {2, 1, 2}, .schedule = "1f1b", .zero = 2, .precision = DType::bf16},
    {.layout = {2, 1, 2}, .schedule = "zb-h1", .precision = DType::bf16, .sequences = false},
    {.layout = {2, 1, 2}, .schedule = "zb-h1", .gated = false, .zero = 1, .slices = 1, .expert = 4},
    {.layout = {2, 1, 2}, .schedule = "1f1b", .zero = 3, .slices = 1, .expert = 2},
    {.layout = {1, 1, 4}, .schedule = "1f1b", .gated = false, .zero = 3},
    {.layout = {1, 2, 2}, .schedule = "v-half", .zero = 1},
    {.layout = {1, 2, 2}, .schedule = "dualpipe", .gated = false, .recomputed = Recompute::full},
};

RunConfig config_of(const SharedCase& c) {
  RunConfig config;
  config.model = small_deepseek(true);
  if (c.gated) {
    config.model = small_mixture(false);
    config.model.architecture = "qwen2_moe";
    config.model.norms.qk = false;
    config.model.layers = 4;
    config.model.mixture.experts = 8;
    config.model.mixture.shared = 24;
  }
  set_layout(config, c.layout);
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.layout.tensor > 1 && c.sequences;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.recompute.granularity = c.recomputed;
  if (c.recomputed == Recompute::selective) config.recompute.modules = {.moe = true};
  config.mixture.capacity_factor = c.capacity;
  config.numerics.precision = c.precision;
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 4 * c.layout.data;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

TEST(SharedExpertAlongsideExchanges, IsTheSameStepWithThePredictedMemory) {
  int compared = 0;
  for (const SharedCase& c : kSharedCases) {
    const RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} ep{} {} zero{} {}", c.layout.tensor, c.layout.pipeline,
                             c.layout.data, c.expert, c.schedule, c.zero, c.gated ? "gated" : "deepseek"));
    expect_same_step(config, &ExpertParallelConfig::shared_expert_overlap);
    ++compared;
  }
  EXPECT_GT(compared, 1);
}

}  // namespace
}  // namespace plumbline::training::shared_overlap_step_test
