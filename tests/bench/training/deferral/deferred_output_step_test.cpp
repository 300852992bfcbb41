// Output-layer weight gradients at the end of the last stage's backwards. Gradients equal those of a step
// without, bit for bit. Memory, on every rank and after every action, and traffic are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::deferred_output_step_test {
namespace {

constexpr const char* kSchedules[] = {"1f1b", "interleaved", "gpipe"};

std::vector<ModelConfig> models() {
  ModelConfig untied = small_qwen2();
  untied.embedding.tied = false;
  ModelConfig biased = small_gpt2();
  biased.biases.output = true;
  ModelConfig modules = untied;
  modules.prediction_modules = 2;
  return {untied, biased, small_mixture(false), small_deepseek(true), modules};
}

/// Every other setting, one at a time.
RunConfig config_of(const ModelConfig& model, const Layout& layout, std::size_t turn) {
  RunConfig config;
  config.model = model;
  config.model.layers = 8;
  set_layout(config, layout);
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = kSchedules[turn % std::size(kSchedules)];
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.pp.defer_embedding_wgrad_compute = true;
  config.parallel.sequence_parallel = turn % 2 == 1;
  config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(turn / 2 % 4) : 0;
  config.parallel.pp.overlap_p2p_comm = turn % 5 == 0;
  config.parallel.dp.bucket_size = turn % 4 == 0 ? 1 : 10'000'000;
  config.numerics.precision = turn / 3 % 2 == 0 ? DType::fp32 : DType::bf16;
  config.numerics.cross_entropy_loss_fusion = turn / 6 % 2 == 0;
  set_dropout(config, kDropouts[turn / 5 % 2]);
  if (model.mixture) config.mixture.aux_loss_coeff = 0.02;
  set_recomputation(config, kRecomputations[turn % 3 == 2 ? 1 + turn / 3 % 6 : 0]);
  if (turn % 7 == 3) config.offload.num_layers = 1;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

TEST(DeferredOutputGradients, AreThoseOfAStepWithoutAndHoldWhatIsPredicted) {
  std::vector<Layout> layouts;
  for (const Layout& layout : layouts_of(world_ranks())) {
    if (layout.pipeline > 1) layouts.push_back(layout);
  }
  int compared = 0;
  std::size_t turn = 0;
  for (const ModelConfig& model : models()) {
    for (std::size_t i = 0; i < 12; ++i, ++turn) {
      RunConfig config = config_of(model, layouts[turn / 2 % layouts.size()], turn);
      if (!is_planned(config)) continue;
      SCOPED_TRACE(fmt::format("{} tp{} pp{} dp{} {} sp{} zero{} {} dropout {} recompute {}",
                               config.model.architecture, config.parallel.tensor, config.parallel.pipeline,
                               config.parallel.data(), config.parallel.pp.schedule,
                               config.parallel.sequence_parallel, config.parallel.dp.zero_stage,
                               name_of(config.numerics.precision), config.numerics.hidden_dropout,
                               to_string(config.recompute.selected())));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_memory(config, found);
      expect_traffic(config, found, communicator.rank());
      config.parallel.pp.defer_embedding_wgrad_compute = false;
      const StepResult plain = one_step(config, communicator);
      expect_same_bits(plain, found);
      ++compared;
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace plumbline::training::deferred_output_step_test
