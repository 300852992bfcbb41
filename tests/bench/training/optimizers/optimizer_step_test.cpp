// Optimizers: losses and weights of ten steps against PyTorch's (tests/golden/make_optimizers.py); in every
// split steps as on one rank, with memory and traffic as predicted to the byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::optimizer_step_test {
namespace {

/// The rank's own, in a folder that all ranks of the test share.
std::string weights_folder(int ranks) {
  return fmt::format("{}/optimizer_step_test_{}", testing::TempDir(), ranks);
}

TEST(GoldenOptimizers, LossesAndWeightsOfTenStepsEqualPyTorchs) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "more ranks are compared with one below";
  for (const char* name : {"sgd_momentum", "lion", "muon", "muon_simple", "muon_experts", "muon_shared"}) {
    const std::string folder = fmt::format("{}/tests/golden/optimizers/{}", PLUMBLINE_SOURCE_DIR, name);
    std::ifstream expected_file(folder + "/expected.json");
    const nlohmann::json expected = nlohmann::json::parse(expected_file)["losses"];
    const Tensors weights = tensors_of(folder + "/weights.safetensors");
    for (const Layout& layout : layouts_of(ranks)) {
      for (const int zero : layout.data > 1 ? std::vector<int>{0, 1, 3} : std::vector<int>{0}) {
        RunConfig config = load_run_config(folder + "/run.yaml", {});
        set_layout(config, layout);
        config.parallel.dp.zero_stage = zero;
        config.files.save_weights = weights_folder(ranks);
        if (why_invalid(config)) continue;
        const std::string what =
            fmt::format("{} tp{} pp{} dp{} zero{}", name, layout.tensor, layout.pipeline, layout.data, zero);
        MpiCommunicator communicator(config.layout());
        const auto operators = make_cpu_operators();
        const TrainingResult result =
            train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
        ASSERT_EQ(result.losses.size(), expected.size());
        for (std::size_t step = 0; step < expected.size(); ++step)
          EXPECT_NEAR(result.losses[step] / expected[step].get<double>(), 1, 1e-5) << what << " " << step;
        if (communicator.rank() != 0) continue;
        std::string worst;
        const double error =
            largest_error(weights, tensors_of(config.files.save_weights + "/model.safetensors"), worst);
        EXPECT_LE(error, 1e-5) << what << ": " << worst;
        fmt::print("{}: largest error of weights {:.1e} ({})\n", what, error, worst);
        std::filesystem::remove_all(config.files.save_weights);
      }
    }
  }
}

enum class Model { qwen2, gpt2, mixture, spread, deepseek, modules };

ModelConfig model_of(Model kind) {
  ModelConfig model = kind == Model::deepseek                           ? small_deepseek(true)
                      : kind == Model::mixture || kind == Model::spread ? small_mixture(true)
                      : kind == Model::gpt2                             ? small_gpt2()
                                                                        : small_qwen2();
  if (kind == Model::spread) model.mixture.experts = 8;
  if (kind == Model::modules) model.prediction_modules = 2;
  model.layers = 4;
  return model;
}

struct Case {
  int tensor, pipeline, data;
  Model model = Model::qwen2;
  Optimizer optimizer = Optimizer::muon;
  const char* schedule = "1f1b";
  int expert = 1;
  int slices = 0;  // of an expert; 0: as tensor ranks
  int instances = 1;
  MuonTensorMode mode = MuonTensorMode::duplicated;
  bool split_qkv = true;
  DType precision = DType::fp32;
};

constexpr Case kCases[] = {
    {1, 1, 1},
    {1, 1, 1, Model::gpt2, Optimizer::lion},
    {1, 1, 1, Model::deepseek},
    {1, 1, 2},
    {1, 1, 2, Model::gpt2, Optimizer::sgd},
    {1, 1, 2, Model::qwen2, Optimizer::lion},
    {1, 1, 2, Model::deepseek},
    {1, 1, 2, Model::spread, Optimizer::muon, "1f1b", 2},
    {1, 1, 2, Model::modules},
    {1, 1, 2, Model::qwen2, Optimizer::muon, "1f1b", 1, 0, 1, MuonTensorMode::duplicated, false, DType::bf16},
    {2, 1, 1},
    {2, 1, 1, Model::gpt2, Optimizer::muon, "1f1b", 1, 0, 1, MuonTensorMode::duplicated, false},
    {2, 1, 1, Model::deepseek},
    {2, 1, 1, Model::mixture},
    {2, 1, 1, Model::mixture, Optimizer::muon, "1f1b", 1, 0, 1, MuonTensorMode::blockwise},
    {1, 2, 1, Model::modules},
    {1, 2, 1, Model::gpt2, Optimizer::lion, "zb-h1"},
    {1, 1, 4, Model::mixture},
    {1, 1, 4, Model::qwen2, Optimizer::muon, "1f1b", 1, 0, 2},
    {2, 1, 2, Model::spread, Optimizer::muon, "1f1b", 2},
    {2, 1, 2, Model::spread, Optimizer::muon, "1f1b", 4, 1},
    {2, 1, 2, Model::modules},
    {1, 2, 2, Model::qwen2, Optimizer::muon, "zb-v"},
    {1, 2, 2, Model::qwen2, Optimizer::muon, "dualpipe"},
    {2, 2, 1, Model::deepseek},
};

RunConfig config_of(const Case& c, int zero) {
  RunConfig config;
  config.model = model_of(c.model);
  config.numerics.precision = c.precision;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.dp.zero_stage = zero;
  config.parallel.dp.optimizer_instances = c.instances;
  config.optimizer.kind = c.optimizer;
  config.optimizer.learning_rate = 1e-3;
  if (c.optimizer == Optimizer::sgd) config.optimizer.sgd_momentum = 0.9;
  config.optimizer.muon.tp_mode = c.mode;
  config.optimizer.muon.split_qkv = c.split_qkv;
  config.optimizer.muon.nesterov = true;
  config.optimizer.muon.extra_scale_factor = 0.2;
  set_layout(config, {c.tensor, c.pipeline, c.data});
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.sequence_parallel = c.tensor > 1;
  return config;
}

RunConfig alone(const RunConfig& config) {
  RunConfig one = config;
  set_layout(one, {1, 1, 1});
  one.parallel.expert = 1;
  one.parallel.expert_tensor = 0;
  one.parallel.pp.schedule = "1f1b";
  one.parallel.sequence_parallel = false;
  one.parallel.dp.zero_stage = 0;
  one.parallel.dp.optimizer_instances = 1;
  return one;
}

TEST(Optimizers, TrainAsOneRankDoesAndHoldAndSendWhatIsPredicted) {
  const int ranks = world_ranks();
  int compared = 0;
  for (const Case& c : kCases) {
    if (c.tensor * c.pipeline * c.data != ranks) continue;
    std::optional<StepResult> reference;
    for (int zero = 0; zero <= (c.data > 1 ? 3 : 0); ++zero) {
      if (zero == 0 && c.instances > 1) continue;
      const RunConfig config = config_of(c, zero);
      SCOPED_TRACE(fmt::format("tp{} pp{} dp{} ep{} {} model {} zero{} {}", c.tensor, c.pipeline, c.data,
                               c.expert, c.schedule, static_cast<int>(c.model), zero,
                               optimizer_name(c.optimizer)));
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      SoloCommunicator solo;
      if (!reference) reference = step_of_first_rank([&] { return last_step(alone(config), 3, solo); });
      MpiCommunicator communicator(config.layout());
      const StepResult found = last_step(config, 3, communicator);
      const bool same = c.tensor == 1 || c.mode == MuonTensorMode::duplicated;
      const double tolerance = c.precision == DType::fp32 ? 2e-5 : 1e-2;
      if (same) {
        EXPECT_NEAR(found.loss, reference->loss, tolerance * reference->loss);
      } else {
        EXPECT_GT(std::abs(found.loss / reference->loss - 1), tolerance);
      }
      const StepResult first = one_step(config, communicator);
      expect_routed_memory(config, first);
      expect_routed_traffic(config, first, communicator.rank());
      ++compared;
    }
  }
  fmt::print("{} steps compared\n", compared);
}

}  // namespace
}  // namespace plumbline::training::optimizer_step_test
