// A training step of two ranks with the CUDA operators run on the host: dense models, MTP, distillation, a
// split vocabulary, offloaded layers. Loss and gradients equal those of one rank with the CPU's operators.
// Memory is as predicted for backend cuda.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "analysis/memory/memory_model.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {
namespace {

enum class StepModel { qwen2, gpt2, predicting };

struct StepCase {
  const char* name;
  StepModel model;
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  DType precision = DType::fp32;
  bool sequence_parallel = false;
  int zero = 0;
  const char* vocabulary = "none";
  bool distilled = false;
  std::int64_t offloaded = 0;  // layers
  bool dropout = false;
  std::size_t recomputation = 0;  // of kRecomputations
  bool unfused = false;
};
constexpr StepCase kStepCases[] = {
    {"dense", StepModel::qwen2, {2, 1, 1}, "1f1b", DType::fp32, true},
    {"dense", StepModel::gpt2, {1, 2, 1}, "zb-h1", DType::bf16},
    {"dense, dropout, recomputed",
     StepModel::gpt2,
     {1, 1, 2},
     "1f1b",
     DType::fp32,
     false,
     3,
     "none",
     false,
     0,
     true,
     2},
    {"dense, parts recomputed",
     StepModel::qwen2,
     {2, 1, 1},
     "zb-h1",
     DType::bf16,
     true,
     0,
     "none",
     false,
     0,
     false,
     6},
    {.name = "unfused, dropout",
     .model = StepModel::qwen2,
     .layout = {2, 1, 1},
     .sequence_parallel = true,
     .dropout = true,
     .recomputation = 1,
     .unfused = true},
    {.name = "unfused",
     .model = StepModel::gpt2,
     .layout = {1, 2, 1},
     .schedule = "zb-h1",
     .precision = DType::bf16,
     .unfused = true},
    {"further tokens", StepModel::predicting, {1, 2, 1}},
    {"further tokens", StepModel::predicting, {2, 1, 1}, "zb-h1", DType::bf16, true},
    {"distillation", StepModel::qwen2, {2, 1, 1}, "1f1b", DType::fp32, true, 0, "none", true},
    {"distillation", StepModel::qwen2, {1, 2, 1}, "1f1b", DType::bf16, false, 0, "none", true},
    {"vocabulary", StepModel::qwen2, {1, 2, 1}, "1f1b", DType::fp32, false, 0, "vocab-1"},
    {"vocabulary", StepModel::gpt2, {1, 2, 1}, "v-half", DType::bf16, false, 0, "vocab-2"},
    {"vocabulary", StepModel::qwen2, {1, 2, 1}, "1f1b", DType::fp32, false, 0, "interlaced"},
    {"offloaded", StepModel::qwen2, {1, 2, 1}, "zb-h1", DType::fp32, false, 0, "none", false, 1},
    {"offloaded", StepModel::gpt2, {1, 1, 2}, "1f1b", DType::bf16, false, 1, "none", false, 3},
};

ModelConfig step_model(StepModel which) {
  switch (which) {
    case StepModel::qwen2:
      return small_qwen2();
    case StepModel::gpt2:
      return small_gpt2();
    case StepModel::predicting: {
      ModelConfig model = small_qwen2();
      model.embedding.tied = false;
      model.prediction_modules = 1;
      return model;
    }
  }
  return {};
}

RunConfig step_config(const StepCase& c, bool alone) {
  RunConfig config;
  config.model = step_model(c.model);
  config.model.layers = 4;
  if (c.distilled) {
    config.distillation.teacher = config.model;
    config.distillation.teacher->layers = 6;
    config.distillation.temperature = 2.5;
    config.distillation.lm_weight = 0.3;
  }
  config.numerics.precision = c.precision;
  if (c.dropout) set_dropout(config, kDropouts[1]);
  config.batch = {.seq_length = 40, .micro_batch_size = 1, .global_batch_size = 4};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  if (alone) return config;
  set_layout(config, c.layout);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.sequence_parallel;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  config.offload.num_layers = c.offloaded;
  set_recomputation(config, kRecomputations[c.recomputation]);
  config.machine.backend = Backend::cuda;
  if (c.unfused) config.numerics.attention_backend = AttentionBackend::unfused;
  return config;
}

void expect_predicted_memory(const RunConfig& config, const StepResult& found) {
  const MemoryPrediction prediction = predict_memory(config, schedule_for(config));
  for (std::size_t rank = 0; rank < found.memory.size(); ++rank) {
    const MeasuredMemory& measured = found.memory[rank];
    EXPECT_EQ(prediction.of_rank(static_cast<int>(rank)).peak, measured.at_peak) << "rank " << rank;
    EXPECT_EQ(prediction.of_rank(static_cast<int>(rank)).host, measured.host) << "rank " << rank;
  }
}

TEST(StepOnHost, GivesTheSingleRanksGradientsInThePredictedMemory) {
  cuda::CudaOperators operators(CudaOptions{});
  for (const StepCase& c : kStepCases) {
    SCOPED_TRACE(fmt::format("{}, {}, {}, {}", c.name, c.schedule, c.vocabulary, name_of(c.precision)));
    const RunConfig config = step_config(c, false);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, operators, communicator);
    expect_predicted_memory(config, found);
    if (communicator.rank() != 0) continue;
    SoloCommunicator solo;
    RunConfig alone = step_config(c, true);
    const StepResult reference = one_step(alone, solo);
    const bool rounds = c.precision != DType::fp32;
    std::map<std::string, double> rounding;
    if (rounds) {
      alone.numerics.precision = DType::fp32;
      rounding = errors_of(one_step(alone, solo).gradients, reference.gradients);
    }
    const double tolerance = rounds ? 2e-2 : 1e-4;
    EXPECT_NEAR(found.loss / reference.loss, 1, tolerance);
    EXPECT_NEAR(found.gradient_norm / reference.gradient_norm, 1, tolerance);
    std::string worst;
    // Other operators round 16-bit numbers differently elsewhere.
    EXPECT_LE(largest_share(reference.gradients, found.gradients, tolerance, rounding, worst), rounds ? 2 : 1)
        << worst;
  }
}

}  // namespace
}  // namespace plumbline::training
