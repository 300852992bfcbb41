// A step of an MoE model over splits, schedules and switches: gradients equal those of a single rank. Memory,
// on every rank and after every action, and traffic are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::mixture_step_test {
namespace {

enum class Model { mixture, deepseek, glm };

struct Capacity {
  double factor = 0;
  TokenDropPolicy policy = TokenDropPolicy::probs;
  bool padded = false;
};

struct Case {
  const char* name;
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  bool sequence_parallel = false;
  int zero = 0;
  Recompute recompute = Recompute::none;
  DType precision = DType::fp32;
  bool normalized = true;
  Dropouts dropout = kDropouts[0];
  const char* vocabulary = "none";
  int context = 1;
  std::int64_t shared = 0;
  Model model = Model::mixture;
  Capacity capacity{};
};
constexpr Case of(Model model, Case c) {
  c.model = model;
  return c;
}
/// An expert has at most `factor` times the mean.
constexpr Case limited(double factor, TokenDropPolicy policy, bool padded, Case c) {
  c.capacity = {factor, policy, padded};
  return c;
}
constexpr Case kCases[] = {
    {"one rank", {1, 1, 1}, "1f1b", false, 0, Recompute::full},
    {"one rank", {1, 1, 1}, "1f1b", false, 0, Recompute::selective, DType::bf16, false, kDropouts[1]},
    {"tensor", {2, 1, 1}, "zb-h1", false, 0, Recompute::none, DType::bf16},
    {"tensor", {2, 1, 1}, "zb-h1", true, 0, Recompute::full, DType::bf16, false, kDropouts[1]},
    {"tensor", {2, 1, 1}, "1f1b", true, 0, Recompute::selective, DType::fp32, false},
    {"pipeline", {1, 2, 1}, "zb-v", false, 0, Recompute::none, DType::fp32, false},
    {"pipeline", {1, 2, 1}, "v-half", false, 0, Recompute::full, DType::bf16, true, kDropouts[0], "vocab-2"},
    {"data", {1, 1, 2}, "gpipe", false, 3, Recompute::full, DType::bf16},
    {"context", {1, 1, 1}, "1f1b", false, 2, Recompute::none, DType::fp32, true, kDropouts[0], "none", 2},
    {"shared", {1, 1, 1}, "1f1b", false, 0, Recompute::full, DType::bf16, true, kDropouts[1], "none", 1, 24},
    {"shared", {2, 1, 1}, "1f1b", true, 0, Recompute::full, DType::fp32, true, kDropouts[0], "none", 1, 24},
    {"shared", {2, 1, 1}, "zb-h1", true, 0, Recompute::none, DType::bf16, true, kDropouts[1], "none", 1, 24},
    {"shared", {1, 2, 1}, "zb-v", false, 0, Recompute::none, DType::fp32, true, kDropouts[0], "none", 1, 24},
    {"shared", {1, 1, 1}, "1f1b", false, 3, Recompute::none, DType::fp32, true, kDropouts[0], "none", 2, 24},
    of(Model::deepseek, {"latent", {1, 1, 1}, "1f1b", false, 0, Recompute::full}),
    of(Model::deepseek, {"latent", {1, 1, 1}, "zb-h1", false, 0, Recompute::selective, DType::bf16}),
    of(Model::deepseek, {"latent", {2, 1, 1}, "1f1b", true, 0, Recompute::full, DType::fp32}),
    of(Model::deepseek,
       {"latent", {2, 1, 1}, "zb-h1", true, 0, Recompute::none, DType::bf16, true, kDropouts[1]}),
    of(Model::deepseek, {"latent", {2, 1, 1}, "zb-h1", false, 0, Recompute::none, DType::bf16}),
    of(Model::deepseek, {"latent", {1, 2, 1}, "zb-v", false, 0, Recompute::full, DType::fp32}),
    of(Model::deepseek, {"latent", {1, 2, 1}, "dualpipe", false, 0, Recompute::none, DType::fp32}),
    of(Model::deepseek, {"latent", {1, 1, 2}, "zb-h1", false, 3, Recompute::full, DType::bf16}),
    of(Model::glm, {"dense first", {1, 1, 2}, "1f1b", false, 1, Recompute::full, DType::fp32}),
    of(Model::deepseek, {"latent", {2, 1, 2}, "1f1b", true, 2, Recompute::selective, DType::fp32}),
    {"both", {2, 2, 1}, "interleaved", true, 0, Recompute::none, DType::bf16},
    {"both", {2, 1, 2}, "1f1b", true, 1, Recompute::full, DType::fp32, false},
    limited(1, TokenDropPolicy::probs, false, {"drops", {1, 1, 1}, "1f1b", false, 0, Recompute::full}),
    limited(1.4, TokenDropPolicy::probs, true,
            {"padded", {1, 1, 1}, "1f1b", false, 0, Recompute::none, DType::bf16}),
    limited(0.6, TokenDropPolicy::probs, false, {"drops", {2, 1, 1}, "zb-h1", true}),
    limited(1, TokenDropPolicy::position, true,
            {"padded", {2, 1, 1}, "1f1b", true, 0, Recompute::full, DType::fp32, false}),
    limited(1, TokenDropPolicy::position, false, {"drops", {1, 2, 1}, "zb-v", false}),
    limited(0.7, TokenDropPolicy::probs, false, of(Model::deepseek, {"drops", {1, 2, 1}, "dualpipe"})),
    limited(1, TokenDropPolicy::probs, true,
            of(Model::glm, {"padded", {1, 1, 2}, "gpipe", false, 3, Recompute::full})),
    limited(
        0.9, TokenDropPolicy::probs, false,
        {"drops", {1, 1, 1}, "1f1b", false, 2, Recompute::none, DType::fp32, true, kDropouts[0], "none", 2}),
    limited(0.8, TokenDropPolicy::probs, false,
            {"drops",
             {2, 2, 1},
             "interleaved",
             true,
             0,
             Recompute::full,
             DType::fp32,
             true,
             kDropouts[0],
             "none",
             1,
             24}),
    limited(1, TokenDropPolicy::position, true, of(Model::deepseek, {"padded", {2, 1, 2}, "1f1b", true, 1})),
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_mixture(c.normalized);
  if (c.shared > 0) config.model.architecture = "qwen2_moe";
  config.model.mixture.shared = c.shared;
  if (c.model != Model::mixture) config.model = small_deepseek(c.model == Model::deepseek);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.sequence_parallel;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  config.recompute.granularity = c.recompute;
  if (c.model != Model::mixture) config.recompute.num_layers = 2;  // one group has layers of both kinds
  config.numerics.precision = c.precision;
  set_dropout(config, c.dropout);
  config.numerics.attention_dropout = 0;
  config.mixture.capacity_factor = c.capacity.factor;
  config.mixture.drop_policy = c.capacity.policy;
  config.mixture.pad_to_capacity = c.capacity.padded;
  config.mixture.aux_loss_coeff = c.context > 1 ? 0 : 0.02;
  config.mixture.z_loss_coeff = 0.003;
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 8;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  config.parallel.context = c.context;
  if (c.context > 1) config.parallel.cp.comm_type = CpCommType::all_gather;
  return config;
}

/// Result of `c` in one copy on this rank alone.
StepResult alone(const Case& c) {
  RunConfig config = config_of(c);
  set_layout(config, {1, 1, 1});
  config.parallel.context = 1;
  config.parallel.pp.schedule = "1f1b";
  config.parallel.pp.vocab_parallel = VocabPasses::none;
  config.recompute.granularity = Recompute::none;
  SoloCommunicator solo;
  return one_step(config, solo);
}

/// True if experts drop rows without being padded.
bool depends_on_routing(const RunConfig& config) {
  return config.mixture.capacity_factor > 0 && !config.mixture.pad_to_capacity;
}

TEST(MixtureStep, GradientsMemoryAndTrafficAreTheSameInEverySplit) {
  int compared = 0;
  for (const Case& c : kCases) {
    RunConfig config = config_of(c);
    config.parallel.tensor = c.layout.tensor;
    config.parallel.pipeline = c.layout.pipeline;
    config.parallel.world_size = c.layout.world() * c.context;
    if (config.parallel.world_size != world_ranks()) continue;
    if (std::string(c.schedule) == "interleaved") config.parallel.pp.virtual_chunks = 2;
    SCOPED_TRACE(fmt::format("{} {} sp{} zero{}", c.name, c.schedule, c.sequence_parallel, c.zero));
    ASSERT_EQ(why_invalid(config), std::nullopt);
    MpiCommunicator communicator(config.layout());
    StepResult found = one_step(config, communicator);
    ++compared;
    const Schedule schedule = schedule_for(config);
    if (depends_on_routing(config)) {
      expect_routed_memory(config, found);
      expect_routed_traffic(config, found, communicator.rank());
    } else {
      expect_memory(config, found);
      expect_traffic(config, found, communicator.rank());
    }
    if (communicator.rank() != 0) continue;
    const StepResult expected = alone(c);
    const bool rounds = c.precision == DType::bf16;
    const bool others_drop = c.context > 1 && c.capacity.factor > 0;  // a capacity is of half a sequence
    EXPECT_NEAR(found.loss / expected.loss, 1, rounds || others_drop ? 1e-2 : 1e-5);
    if (rounds || others_drop) continue;  // a logit that is rounded otherwise may choose another expert
    expect_gradients(expected.gradients, found.gradients, 1e-4);
  }
  EXPECT_GT(compared, 1);
}

/// The balance of every sequence by itself is that of a micro-batch if that is one sequence.
TEST(MixtureStep, BalanceOfSequencesDoesNotDependOnMicrobatches) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank shows it";
  const auto gradients = [](int sequences, LoadBalancing balancing) {
    RunConfig config = config_of(kCases[0]);
    set_layout(config, {1, 1, 1});
    config.batch.micro_batch_size = sequences;
    config.mixture.aux_loss_coeff = 2;
    config.mixture.load_balancing = balancing;
    EXPECT_EQ(why_invalid(config), std::nullopt);
    SoloCommunicator solo;
    return one_step(config, solo).gradients;
  };
  const auto expected = gradients(1, LoadBalancing::aux_loss);
  expect_gradients(expected, gradients(4, LoadBalancing::seq_aux_loss), 1e-5);
  std::string worst;
  EXPECT_GT(largest_error(expected, gradients(4, LoadBalancing::aux_loss), worst), 1e-3);
}

/// The written load adds up to the tokens, layer by layer and micro-batch by micro-batch.
TEST(MixtureStep, LoadOfExpertsIsWritten) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  for (const Layout& layout : layouts_of(ranks)) {
    RunConfig config = config_of(kCases[0]);
    config.batch.global_batch_size = 4;
    set_layout(config, layout);
    config.files.save_routing = testing::TempDir() + "/plumbline_routing.csv";
    MpiCommunicator communicator(config.layout());
    const auto operators = make_cpu_operators();
    train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
    if (communicator.rank() != 0) continue;
    std::ifstream file(config.files.save_routing);
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line,
              "step,copy,layer,microbatch,expert 0,expert 1,expert 2,expert 3,expert 4,expert 5,expert 6");
    const std::int64_t microbatches = 4 / layout.data;
    const std::int64_t of_step = 4 * config.model.layers;
    const std::int64_t steps = config.measure.warmup_steps + config.measure.steps;
    for (std::int64_t row = 0; row < steps * of_step; ++row) {
      ASSERT_TRUE(std::getline(file, line)) << row;
      std::istringstream numbers(line);
      std::vector<std::int64_t> values;
      for (std::string number; std::getline(numbers, number, ',');) values.push_back(std::stoll(number));
      ASSERT_EQ(values.size(), 11U);
      EXPECT_EQ(values[0], row / of_step);
      EXPECT_EQ(values[1], row % of_step / microbatches / config.model.layers);
      EXPECT_EQ(values[2], row / microbatches % config.model.layers);
      EXPECT_EQ(values[3], row % microbatches);
      EXPECT_EQ(std::accumulate(values.begin() + 4, values.end(), std::int64_t{0}), 2 * 12);
    }
    EXPECT_FALSE(std::getline(file, line));
    file.close();
    std::filesystem::remove(config.files.save_routing);
  }
}

/// On devices that compute nothing experts have equally many rows, as in predictions; the step takes as long,
/// and memory is as on the CPU.
TEST(MixtureStep, TakesAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  for (const std::string schedule : {"1f1b", "zb-h1", "latent"}) {
    SCOPED_TRACE(schedule);
    for (const bool sequence_parallel : {false, true}) {
      RunConfig config;
      config.model = small_mixture(sequence_parallel);
      widen(config.model, 2, 1024);
      config.model.mixture.shared = sequence_parallel ? 2048 : 0;
      if (schedule == "latent") {
        config.model.kv_heads = 16;
        config.model.latent = {512, 256, 64, 64, 96};
        config.model.rotary.dim = 64;
        config.model.mixture.first_dense = 1;
        config.model.mixture.dense_ffn = 4096;
      }
      config.model.position.max = config.batch.seq_length = 2048;
      config.batch.global_batch_size = 2;
      set_emulated(config);
      config.parallel.sequence_parallel = sequence_parallel;
      config.parallel.pp.schedule = schedule == "latent" ? "1f1b" : schedule;
      config.measure.warmup_steps = 1;
      config.measure.steps = 1;
      set_layout(config, {ranks, 1, 1});
      expect_as_predicted(emulated_step(config), 0.02);
    }
  }
}

/// Experts with less than the mean load count more in the next step's choice, on all data ranks alike.
TEST(MixtureStep, BiasesOfExpertsFollowTheLoad) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  RunConfig config = config_of(of(Model::deepseek, {"data", {1, 1, ranks}}));
  set_layout(config, {1, 1, ranks});
  config.mixture.bias_update_rate = 0.25;
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  Arena arena(config.machine.memory_budget, host_memory());
  const Schedule schedule = schedule_for(config);
  RankStages stages(config, schedule, *operators, communicator, arena);
  load_weights(stages, random_weights(1, 0.08));
  const StepData data(config, communicator.rank());
  const StepTokens tokens = data.step(0);
  stages.start_step(tokens.inputs.data(), tokens.targets.data(), tokens.counted);
  execute(schedule, stages, communicator, communicator.now());
  std::vector<float> loads(5 * 8);
  for (const ExpertLoad& load : stages.expert_load()) {
    for (std::size_t i = 0; i < 8; ++i)
      loads[static_cast<std::size_t>(load.layer - 3) * 8 + i] += static_cast<float>(load.tokens[i]);
  }
  communicator.all_reduce(Group::data, Matrix(loads.data(), 1, 5 * 8, DType::fp32), ReduceOp::sum);
  const Matrix biases = stages.memory().untrained;
  ASSERT_EQ(biases.cols, 5 * 8);
  const float mean = 8 * 12 * 3 / 8.0F;
  for (std::int64_t i = 0; i < biases.cols; ++i) {
    const float load = loads[static_cast<std::size_t>(i)];
    EXPECT_EQ(biases.as<float>()[i], load < mean ? 0.25F : load > mean ? -0.25F : 0.0F) << load;
  }
  // They are part of the checkpoint; the matrix of keys and values, whose rows are reordered, is stored
  // whole.
  Tensors saved;
  gather_weights(stages, Gathered::values,
                 [&](NamedTensor&& whole) { saved[whole.name] = std::move(whole.values); });
  if (communicator.rank() != 0) return;
  EXPECT_EQ(saved.at("model.layers.4.mlp.gate.e_score_correction_bias"),
            std::vector<float>(biases.as<float>() + 8, biases.as<float>() + 16));
  EXPECT_FALSE(saved.contains("model.layers.2.mlp.gate.e_score_correction_bias"));
  const std::vector<float>& keys_values = saved.at("model.layers.4.self_attn.kv_b_proj.weight");
  EXPECT_EQ(std::count(keys_values.begin(), keys_values.end(), 0.0F), 0);
}

}  // namespace
}  // namespace plumbline::training::mixture_step_test
