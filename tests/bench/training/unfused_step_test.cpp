// Unfused attention: loss and gradients are those of fused attention on one rank, and memory is as predicted,
// on the CPU and on an emulated device.
#include <gtest/gtest.h>

#include <string>

#include "analysis/memory/memory_model.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/first_rank.hpp"

namespace plumbline::training::unfused_step_test {
namespace {

enum class Attends { groups, windows, slopes, latent };

struct Case {
  const char* name;
  Attends attends;
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  std::size_t recomputation = 0;  // of kRecomputations
  bool dropout = false;
  DType precision = DType::fp32;
  bool teacher = false;
  std::int64_t offloaded = 0;
};
constexpr Case kCases[] = {
    {"groups", Attends::groups, {1, 1, 1}},
    {"windows, dropout", Attends::windows, {1, 1, 1}, "1f1b", 0, true},
    {"latent attention, selective", Attends::latent, {1, 1, 1}, "zb-h1", 1},
    {"slopes, full recomputation, dropout", Attends::slopes, {1, 1, 1}, "1f1b", 3, true},
    {"teacher", Attends::groups, {1, 1, 1}, "1f1b", 0, true, DType::fp32, true},
    {"bf16, offloaded", Attends::groups, {1, 1, 1}, "1f1b", 0, true, DType::bf16, false, 2},
    {"sequence parallel, dropout, selective", Attends::groups, {2, 1, 1}, "1f1b", 1, true},
    {"split backward, parts recomputed", Attends::windows, {1, 2, 1}, "zb-h1", 6, true},
    {"latent attention, ZeRO 3", Attends::latent, {1, 1, 2}, "1f1b", 0, true},
    {"tensor and pipeline ranks", Attends::groups, {2, 2, 1}, "zb-v", 0, true},
    {"tensor and data ranks, bf16", Attends::slopes, {2, 1, 2}, "1f1b", 1, false, DType::bf16},
};

ModelConfig model_of(Attends attends) {
  ModelConfig model = attends == Attends::slopes   ? small_gpt2()
                      : attends == Attends::latent ? small_deepseek(true)
                                                   : small_qwen2();
  model.layers = 4;
  if (attends == Attends::slopes) model.position.kind = Positions::alibi;
  if (attends == Attends::windows) {
    model.window.size = 10;
    model.window.full_layers = {true, false, false, true};
  }
  return model;
}

RunConfig config_of(const Case& c, bool alone) {
  RunConfig config;
  config.model = model_of(c.attends);
  config.numerics.precision = c.precision;
  if (c.dropout) set_dropout(config, kDropouts[1]);
  config.batch = {.seq_length = 24, .micro_batch_size = 2, .global_batch_size = 8};
  config.parallel.make_vocab_size_divisible_by = 8;
  if (c.teacher) {
    config.distillation.teacher = small_gpt2();
    config.distillation.lm_weight = 0.5;
  }
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  if (alone) return config;
  set_layout(config, c.layout);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.dp.zero_stage = c.layout.data > 1 ? 3 : 0;
  config.offload.num_layers = c.offloaded;
  set_recomputation(config, kRecomputations[c.recomputation]);
  config.numerics.attention_backend = AttentionBackend::unfused;
  return config;
}

void expect_predicted_memory(const RunConfig& config, const std::vector<MeasuredMemory>& measured) {
  const MemoryPrediction prediction = predict_memory(config, schedule_for(config));
  for (std::size_t rank = 0; rank < measured.size(); ++rank) {
    EXPECT_EQ(prediction.of_rank(static_cast<int>(rank)).peak, measured[rank].at_peak) << "rank " << rank;
  }
}

/// The step's memory on emulated H100s on which nothing takes time.
void expect_predicted_memory_when_emulated(RunConfig config) {
  set_emulated(config);
  MpiCommunicator control(config.layout());
  EmulatedClock clock(1, control.clock_offset());
  EmulatedLinks links;
  links.message = [](Bytes, int, int) { return EmulatedTransfer{}; };
  links.collective = [](const EmulatedCollective&) { return Seconds{}; };
  EmulatedCommunicator communicator(config.layout(), clock, links);
  const auto operators = make_emulated_operators(clock, [](const EmulatedCall&) { return Seconds{}; });
  expect_predicted_memory(
      config,
      train(config, schedule_for(config), *operators, communicator, control, untouched_memory(), {}).memory);
}

TEST(UnfusedAttention, GivesTheFusedOnesGradientsInThePredictedMemory) {
  for (const Case& c : kCases) {
    if (c.layout.world() != world_ranks()) continue;
    SCOPED_TRACE(c.name);
    const RunConfig config = config_of(c, false);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    expect_predicted_memory(config, found.memory);
    // Copies to the host would read memory that is not there.
    if (c.offloaded == 0) expect_predicted_memory_when_emulated(config);
    on_first_rank([&] {
      SoloCommunicator solo;
      RunConfig alone = config_of(c, true);
      const StepResult reference = one_step(alone, solo);
      const bool rounds = c.precision != DType::fp32;
      std::map<std::string, double> rounding;
      if (rounds) {
        alone.numerics.precision = DType::fp32;
        rounding = errors_of(one_step(alone, solo).gradients, reference.gradients);
      }
      const double tolerance = rounds ? 2e-2 : 1e-5;
      EXPECT_NEAR(found.loss / reference.loss, 1, tolerance);
      EXPECT_NEAR(found.gradient_norm / reference.gradient_norm, 1, tolerance);
      std::string worst;
      // Scores and their gradients are rounded to 16 bits besides.
      EXPECT_LE(largest_share(reference.gradients, found.gradients, tolerance, rounding, worst),
                rounds ? 2 : 1)
          << worst;
    });
  }
}

}  // namespace
}  // namespace plumbline::training::unfused_step_test
