// MTP modules (bench/training/mtp.md): losses and gradients equal PyTorch's (tests/golden/mtp) and those of
// every split; memory after every action and traffic are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/parameters/rank_parameters.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/files/safetensors.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::prediction_step_test {
namespace {

enum class Model { tied, untied, deepseek };

struct Case {
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  Model model = Model::untied;
  std::int64_t modules = 1;
  int zero = 0;
  Recompute recompute = Recompute::none;
  DType precision = DType::fp32;
  bool sequence_parallel = false;
  bool overlap = true;  // of gradient reductions, and of gathered values
  int chunks = 1;
  int expert = 1;
  bool fused_loss = true;
  RecomputeModules recomputed = kCoreAttention;  // of selective recomputation
  bool tensor_overlap = false;
  int context = 1;
  bool dropout = false;
};

constexpr Case kCases[] = {
    {{1, 1, 1}},
    {{1, 1, 1}, "zb-h1", Model::tied, 3, 0, Recompute::full},
    {{1, 1, 1}, "1f1b", Model::deepseek, 2, 0, Recompute::full},
    {{1, 1, 1}, "gpipe", Model::deepseek, 1, 0, Recompute::selective},
    {.layout = {1, 1, 1}, .schedule = "zb-h1", .modules = 2, .precision = DType::bf16, .fused_loss = false},
    {.layout = {1, 1, 1},
     .modules = 2,
     .recompute = Recompute::selective,
     .recomputed = {.core_attn = true, .layernorm = true, .mlp = true}},
    {.layout = {1, 1, 1},
     .schedule = "zb-h1",
     .model = Model::deepseek,
     .modules = 2,
     .recompute = Recompute::selective,
     .recomputed = {.moe_act = true, .layernorm = true, .mla_up_proj = true, .shared_experts = true}},
    {.layout = {1, 1, 1}, .modules = 2, .recompute = Recompute::full, .dropout = true},
    {.layout = {2, 1, 1}, .schedule = "zb-h1", .modules = 2, .sequence_parallel = true, .dropout = true},
    {.layout = {1, 2, 1}, .model = Model::deepseek, .modules = 2, .dropout = true},
    {.layout = {1, 1, 2},
     .schedule = "zb-h1",
     .model = Model::tied,
     .zero = 3,
     .context = 2,
     .dropout = true},
    {{2, 1, 1}, "1f1b", Model::untied, 2},
    {.layout = {2, 1, 1},
     .schedule = "zb-h1",
     .modules = 2,
     .recompute = Recompute::selective,
     .sequence_parallel = true,
     .recomputed = {.layernorm = true},
     .tensor_overlap = true},
    {.layout = {2, 1, 1},
     .model = Model::tied,
     .recompute = Recompute::full,
     .sequence_parallel = true,
     .tensor_overlap = true},
    {{2, 1, 1}, "zb-h1", Model::tied, 2, 0, Recompute::none, DType::fp32, true},
    {{2, 1, 1}, "1f1b", Model::deepseek, 1, 0, Recompute::full, DType::bf16, true},
    {{1, 2, 1}, "1f1b", Model::untied, 2},
    {{1, 2, 1}, "zb-h1", Model::tied, 2, 0, Recompute::full},
    {{1, 2, 1}, "zb-v", Model::deepseek, 2},
    {.layout = {1, 2, 1}, .schedule = "interleaved", .model = Model::deepseek, .modules = 1, .chunks = 2},
    {{1, 1, 2}, "1f1b", Model::untied, 2},
    {{1, 1, 2}, "zb-h1", Model::tied, 2, 1},
    {{1, 1, 2}, "1f1b", Model::untied, 2, 1},
    {{1, 1, 2}, "zb-h1", Model::untied, 2, 2},
    {{1, 1, 2}, "1f1b", Model::deepseek, 2, 3, Recompute::full},
    {{1, 1, 2}, "zb-h1", Model::tied, 2, 3},
    {.layout = {1, 1, 2}, .model = Model::deepseek, .modules = 2, .zero = 2, .overlap = false, .expert = 2},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .model = Model::deepseek, .zero = 3, .expert = 2},
    {.layout = {1, 1, 2},
     .model = Model::deepseek,
     .modules = 2,
     .zero = 1,
     .recompute = Recompute::selective,
     .expert = 2,
     .recomputed = {.moe = true}},
    {.layout = {1, 1, 2}, .modules = 2, .zero = 3, .precision = DType::bf16, .overlap = false},
    {.layout = {1, 1, 2}, .modules = 2, .zero = 1, .context = 2},
    {.layout = {1, 1, 2},
     .schedule = "zb-h1",
     .model = Model::deepseek,
     .modules = 2,
     .recompute = Recompute::full,
     .expert = 2,
     .context = 2},
    {.layout = {2, 1, 2}, .model = Model::tied, .modules = 3, .sequence_parallel = true, .context = 2},
    {.layout = {1, 2, 2}, .schedule = "zb-v", .modules = 2, .zero = 3, .context = 2},
    {{2, 2, 1}, "zb-h1", Model::deepseek, 2, 0, Recompute::none, DType::fp32, true},
    {{2, 1, 2}, "1f1b", Model::untied, 2, 3, Recompute::full, DType::fp32, true},
    {{1, 2, 1}, "dualpipe", Model::untied, 2},
    {.layout = {1, 2, 1},
     .schedule = "dualpipe",
     .model = Model::tied,
     .modules = 2,
     .recompute = Recompute::full,
     .dropout = true},
    {{2, 2, 1}, "dualpipe", Model::tied, 1, 0, Recompute::none, DType::bf16, true},
    {.layout = {1, 2, 2}, .schedule = "dualpipe", .model = Model::deepseek, .zero = 3, .expert = 2},
    {{1, 4, 1}, "dualpipe", Model::tied, 2},
    {{1, 2, 2}, "1f1b", Model::untied, 2, 1},
    {{1, 2, 2}, "zb-h1", Model::untied, 2, 1},
    {{1, 2, 2}, "1f1b", Model::tied, 2, 1},
    {{1, 2, 2}, "zb-h1", Model::tied, 1, 2},
    {{1, 2, 2}, "zb-v", Model::untied, 2, 3},
    {.layout = {1, 2, 2}, .model = Model::deepseek, .modules = 2, .zero = 1, .expert = 2},
};

ModelConfig model_of(Model kind) {
  ModelConfig model = kind == Model::deepseek ? small_deepseek(true) : small_qwen2();
  model.embedding.tied = kind == Model::tied;
  return model;
}

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = model_of(c.model);
  config.model.prediction_modules = c.modules;
  config.prediction.loss_scaling_factor = 0.7;
  set_layout(config, c.layout);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.pp.virtual_chunks = c.chunks;
  config.parallel.sequence_parallel = c.sequence_parallel;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.expert = c.expert;
  config.parallel.context = c.context;
  if (c.expert > 1) config.parallel.ep.token_dispatcher = TokenDispatcher::alltoall;
  config.parallel.dp.overlap_grad_reduce = c.overlap;
  config.parallel.dp.overlap_param_gather = c.overlap && c.zero > 0;
  config.parallel.tp.comm_overlap = c.tensor_overlap;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.recompute.modules = c.recomputed;
  config.numerics.precision = c.precision;
  config.numerics.cross_entropy_loss_fusion = c.fused_loss;
  set_dropout(config, kDropouts[c.dropout ? 1 : 0]);
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 8;
  return config;
}

StepResult alone(const Case& c) {
  Case plain{.layout = {1, 1, 1}, .model = c.model, .modules = c.modules, .dropout = c.dropout};
  SoloCommunicator solo;
  return one_step(config_of(plain), solo);
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, tolerance) << i;
}

TEST(PredictionStep, GradientsMemoryAndTrafficAreTheSameInEverySplit) {
  int compared = 0;
  for (const Case& c : kCases) {
    const RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} cp{} ep{} {} zero{} model {} modules {}", c.layout.tensor,
                             c.layout.pipeline, c.layout.data, c.context, c.expert, c.schedule, c.zero,
                             static_cast<int>(c.model), c.modules));
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    ++compared;
    expect_routed_memory(config, found);
    expect_routed_traffic(config, found, communicator.rank());
    if (communicator.rank() != 0) continue;
    const StepResult expected = alone(c);
    const bool rounds = c.precision == DType::bf16;
    expect_near(found.module_losses, expected.module_losses, rounds ? 1e-2 : 1e-5);
    expect_step(expected, found, rounds);
  }
  EXPECT_GT(compared, 1);
}

TEST(PredictionStep, ARankAloneHoldsTheParametersOfTheModelAndItsModules) {
  if (world_ranks() > 1) GTEST_SKIP() << "of one rank";
  for (const Model kind : {Model::tied, Model::untied, Model::deepseek}) {
    RunConfig config = config_of({.layout = {1, 1, 1}, .model = kind, .modules = 2});
    config.parallel.make_vocab_size_divisible_by = 1;
    const std::int64_t expected = config.model.parameters() + config.model.module_parameters();
    const StageMap placement(schedule_for(config));
    std::int64_t held = 0;
    for (const Parameter& p : stage_parameters(config, part_of(config, placement, 0, {0, 0, 0})).list)
      held += p.elements();
    EXPECT_EQ(held, expected);
    EXPECT_EQ(parameters_of(stage_shapes(config, 1).front()).total(),
              expected - (kind == Model::deepseek ? (config.model.mixture_layers() + 2) * 8 : 0));
  }
}

std::string golden(const std::string& name) {
  return fmt::format("{}/tests/golden/mtp/{}", PLUMBLINE_SOURCE_DIR, name);
}

nlohmann::json golden_numbers(const std::string& name) {
  std::ifstream file(golden(name) + "/expected.json");
  return nlohmann::json::parse(file);
}

struct GoldenSplit {
  Layout layout;
  const char* schedule = "1f1b";
  bool sequence_parallel = false;
  int zero = 0;
};

std::vector<GoldenSplit> golden_splits(int ranks) {
  if (ranks == 1) return {{{1, 1, 1}}};
  if (ranks == 2)
    return {{{2, 1, 1}, "zb-h1", true}, {{1, 2, 1}}, {{1, 2, 1}, "dualpipe"}, {{1, 1, 2}, "1f1b", false, 3}};
  return {{{2, 2, 1}, "1f1b", true}, {{1, 2, 2}, "zb-h1", false, 1}};
}

TEST(PredictionStep, LossesAndGradientsAreThoseOfPyTorch) {
  for (const char* name : {"qwen3", "deepseek_v3"}) {
    const nlohmann::json expected = golden_numbers(name);
    const Tensors gradients = tensors_of(golden(name) + "/gradients.safetensors");
    for (const GoldenSplit& split : golden_splits(world_ranks())) {
      RunConfig config = load_run_config(golden(name) + "/run.yaml", {});
      set_layout(config, split.layout);
      config.parallel.pp.schedule = split.schedule;
      config.parallel.sequence_parallel = split.sequence_parallel;
      config.parallel.dp.zero_stage = split.zero;
      SCOPED_TRACE(fmt::format("{} tp{} pp{} dp{}", name, split.layout.tensor, split.layout.pipeline,
                               split.layout.data));
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      EXPECT_NEAR(found.loss / expected["loss"].get<double>(), 1, 1e-5);
      expect_near(found.module_losses, expected["module_losses"].get<std::vector<double>>(), 1e-5);
      if (communicator.rank() != 0) continue;
      expect_gradients(gradients, found.gradients, 1e-4);
    }
  }
}

TEST(PredictionStep, StepsOfAdamWAreThoseOfPyTorch) {
  if (world_ranks() > 2) GTEST_SKIP() << "two ranks have shown it";
  for (const char* name : {"qwen3", "deepseek_v3"}) {
    const auto expected = golden_numbers(name)["losses"].get<std::vector<double>>();
    RunConfig config = load_run_config(golden(name) + "/run.yaml", {});
    set_layout(config, {1, world_ranks(), 1});
    config.measure.warmup_steps = 1;
    config.measure.steps = static_cast<int>(expected.size()) - 1;
    MpiCommunicator communicator(config.layout());
    const auto operators = make_cpu_operators();
    const TrainingResult result =
        train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
    expect_near(result.losses, expected, 1e-5);
  }
}

/// Weights are written whole, with DeepSeek-V3's names, and read by ranks that have other parts of them.
TEST(PredictionStep, WeightsAreWrittenAndReadInAnySplit) {
  if (world_ranks() != 2) GTEST_SKIP() << "two ranks show it";
  RunConfig config = load_run_config(golden("deepseek_v3") + "/run.yaml", {});
  set_layout(config, {1, 2, 1});
  config.optimizer.learning_rate = 0;
  config.optimizer.weight_decay = 0;
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  const std::string folder = testing::TempDir() + "/plumbline_module_weights";
  config.files.save_weights = folder;
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  if (communicator.rank() != 0) return;
  const TensorFile written(folder);
  const TensorFile read(golden("deepseek_v3"));
  ASSERT_EQ(written.names(), read.names());
  for (const std::string& name : read.names()) {
    const StoredTensor& a = written.get(name);
    const StoredTensor& b = read.get(name);
    ASSERT_EQ(a.shape, b.shape) << name;
    for (std::int64_t i = 0; i < b.elements(); ++i) ASSERT_EQ(a.at(i), b.at(i)) << name;
  }
  std::filesystem::remove_all(folder);
}

/// Whole steps on devices that compute nothing: memory, traffic and time are as predicted.
TEST(PredictionStep, TakesAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks == 1) GTEST_SKIP() << "two ranks show it";
  struct Emulated {
    Layout layout;
    const char* schedule;
    int zero = 0;
    Recompute recompute = Recompute::none;
    RecomputeModules recomputed = kCoreAttention;
    bool tensor_overlap = false;
    int context = 1;
    bool dropout = false;
    bool fp8 = false;
  };
  const std::vector<Emulated> runs =
      ranks == 2 ? std::vector<Emulated>{{{1, 2, 1}, "1f1b", 0},
                                         {{1, 2, 1}, "zb-h1", 0, Recompute::full},
                                         {{1, 2, 1}, "dualpipe", 0},
                                         {{2, 1, 1}, "1f1b", 0},
                                         {.layout = {2, 1, 1},
                                          .schedule = "zb-h1",
                                          .recompute = Recompute::selective,
                                          .recomputed = {.layernorm = true, .mlp = true},
                                          .tensor_overlap = true},
                                         {{1, 1, 2}, "zb-h1", 2},
                                         {{1, 1, 2}, "1f1b", 3, Recompute::full},
                                         {{1, 1, 2}, "1f1b", 1},
                                         {.layout = {1, 1, 2}, .schedule = "1f1b", .context = 2},
                                         {.layout = {2, 1, 1}, .schedule = "1f1b", .dropout = true},
                                         {.layout = {1, 2, 1}, .schedule = "zb-h1", .dropout = true},
                                         {.layout = {1, 1, 2}, .schedule = "1f1b", .zero = 1, .fp8 = true},
                                         {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 3, .fp8 = true}}
                 : std::vector<Emulated>{{{2, 2, 1}, "zb-h1", 0}, {{1, 2, 2}, "1f1b", 1}};
  for (const auto& [layout, schedule, zero, recompute, recomputed, tensor_overlap, context, dropout, fp8] :
       runs) {
    RunConfig config = config_of({.layout = layout,
                                  .schedule = schedule,
                                  .modules = 2,
                                  .zero = zero,
                                  .recompute = recompute,
                                  .recomputed = recomputed,
                                  .tensor_overlap = tensor_overlap,
                                  .context = context,
                                  .dropout = dropout});
    if (fp8) config.numerics.fp8.format = Fp8Format::hybrid;
    config.parallel.sequence_parallel = layout.tensor > 1;
    widen(config.model, 4, 4096);
    config.model.vocab = 32000;
    config.model.position.max = config.batch.seq_length = 2048;
    config.batch.global_batch_size = 4;
    config.measure.warmup_steps = 1;
    config.measure.steps = 1;
    set_emulated(config);
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} {} zero {}", layout.tensor, layout.pipeline, layout.data,
                             schedule, zero));
    expect_as_predicted(emulated_step(config), 0.02);
  }
}

}  // namespace
}  // namespace plumbline::training::prediction_step_test
