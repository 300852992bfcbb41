// Selective recomputation by module: every choice of modules gives the gradients of a step without
// recomputation bit for bit. Memory and traffic, on every rank and after every action, are as predicted, and
// emulated devices take as long.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::recompute_step_test {
namespace {

ModelConfig parallel_block(Block block) {
  ModelConfig model = small_qwen2();
  model.architecture = "falcon";
  model.block = block;
  model.biases.linear = block == Block::parallel_one_norm;
  model.activation = model.biases.linear ? Activation::geglu : Activation::squared_relu;
  return model;
}
/// Blocks add to a multiple of their norm's output, which is read once more.
ModelConfig normed_residual() {
  ModelConfig model = small_qwen2();
  model.architecture = "glm_10b";
  model.norms.kind = Norm::layer;
  model.position.kind = Positions::learned;
  model.position.max = 33;
  model.position.of_blocks = true;
  model.norms.residual = 1.5;
  model.biases.linear = true;
  model.activation = Activation::gelu;
  return model;
}
ModelConfig gated_shared_expert() {
  ModelConfig model = small_mixture(false);
  model.architecture = "qwen2_moe";
  model.mixture.shared = 24;
  return model;
}

std::vector<ModelConfig> models() {
  return {small_qwen2(),
          small_gpt2(),
          parallel_block(Block::parallel),
          parallel_block(Block::parallel_one_norm),
          normed_residual(),
          small_mixture(true),
          gated_shared_expert(),
          small_deepseek(true),
          small_deepseek(false)};
}

/// Each module by itself, and some together.
std::vector<RecomputeModules> choices() {
  std::vector<RecomputeModules> all;
  for (const RecomputeModuleName& module : kRecomputeModules) all.emplace_back().*module.member = true;
  for (const Recomputation& recomputation : kRecomputations) {
    if (recomputation.modules != kCoreAttention) all.push_back(recomputation.modules);
  }
  all.push_back({.core_attn = true, .layernorm = true, .mlp = true});
  all.push_back({.moe_act = true, .layernorm = true});
  all.push_back({.core_attn = true, .layernorm = true, .mla_up_proj = true, .mlp = true, .moe = true});
  all.push_back({.moe_act = true, .moe = true, .shared_experts = true});
  return all;
}

constexpr const char* kSchedules[] = {"1f1b", "zb-h1", "zb-v", "gpipe", "v-half", "dualpipe", "interleaved"};

/// Every other setting, one at a time.
RunConfig config_of(const ModelConfig& model, const Layout& layout, std::size_t turn) {
  RunConfig config;
  config.model = model;
  set_layout(config, layout);
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = kSchedules[turn % std::size(kSchedules)];
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = turn % 2 == 1;
  config.parallel.tp.comm_overlap = turn % 4 == 1 && !model.mixture;
  config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(turn % 4) : 0;
  config.numerics.precision = turn / 2 % 2 == 0 ? DType::fp32 : DType::bf16;
  set_dropout(config, kDropouts[turn / 3 % 2]);
  if (model.mixture) config.mixture.aux_loss_coeff = 0.02;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

TEST(RecomputedModules, LeaveGradientsAsTheyAreAndMemoryAsPredicted) {
  const std::vector<Layout> layouts = layouts_of(world_ranks());
  std::size_t turn = 0;
  int compared = 0;
  for (const ModelConfig& model : models()) {
    for (const RecomputeModules& modules : choices()) {
      RunConfig config = config_of(model, layouts[turn % layouts.size()], turn);
      config.recompute.granularity = Recompute::selective;
      config.recompute.modules = modules;
      if (!modules_fit(config)) continue;
      ++turn;
      if (!is_planned(config)) {
        config.parallel.pp.schedule = "zb-h1";
        config.parallel.pp.virtual_chunks = 1;
      }
      if (!is_planned(config)) continue;
      SCOPED_TRACE(fmt::format(
          "{} tp{} pp{} dp{} {} sp{} zero{} {} dropout {}: {}", config.model.architecture,
          config.parallel.tensor, config.parallel.pipeline, config.parallel.data(),
          config.parallel.pp.schedule, config.parallel.sequence_parallel, config.parallel.dp.zero_stage,
          name_of(config.numerics.precision), config.numerics.hidden_dropout, to_string(modules)));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_memory(config, found);
      expect_traffic(config, found, communicator.rank());
      config.recompute = {};
      const StepResult plain = one_step(config, communicator);
      expect_same_bits(plain, found);
      EXPECT_LT(kept(found), kept(plain));
      ++compared;
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 30);
}

/// On devices that compute nothing the step takes as long as predicted, and longer than without
/// recomputation.
TEST(RecomputedModules, TakeAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  std::vector<ModelConfig> large = {small_qwen2(), gated_shared_expert(), small_deepseek(true)};
  for (ModelConfig& model : large) {
    widen(model, 4, 2048, model.latent ? 16 : 4);
    model.position.max = 2048;
    if (model.mixture) model.mixture.shared = 2048;
    if (!model.latent) continue;
    model.latent = {512, 256, 64, 64, 96};
    model.rotary.dim = 64;
    model.mixture.first_dense = 2;
    model.mixture.dense_ffn = 4096;
  }
  std::size_t turn = 0;
  for (const ModelConfig& model : large) {
    for (const RecomputeModules& modules : choices()) {
      RunConfig config = config_of(model, {ranks, 1, 1}, turn);
      config.parallel.pp.schedule = turn % 2 == 0 ? "1f1b" : "zb-h1";
      config.parallel.pp.virtual_chunks = 1;
      config.parallel.sequence_parallel = turn / 2 % 2 == 0;
      config.parallel.tp.comm_overlap = false;
      config.numerics.precision = DType::bf16;
      config.batch.seq_length = 2048;
      config.batch.global_batch_size = 2;
      set_emulated(config);
      config.recompute.granularity = Recompute::selective;
      config.recompute.modules = modules;
      if (!modules_fit(config)) continue;
      ++turn;
      SCOPED_TRACE(fmt::format("{} {} {}: {}", model.architecture, config.parallel.pp.schedule,
                               config.parallel.sequence_parallel, to_string(modules)));
      const EmulatedStep step = emulated_step(config);
      expect_as_predicted(step, 0.01);
      config.recompute.granularity = Recompute::none;
      const Prediction plain = predict(config, schedule_for(config), load_hardware(config.machine.hardware));
      EXPECT_GT(step.predicted.time.step, plain.time.step);
    }
  }
}

}  // namespace
}  // namespace plumbline::training::recompute_step_test
