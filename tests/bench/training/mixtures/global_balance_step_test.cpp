// Global-batch load-balancing loss (bench/training/mixtures.md). Gradients equal PyTorch's
// (tests/golden/balance, which also has the related losses) and each other's in every split with the same
// tokens at a time. Memory, traffic and time are as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::global_balance_step_test {
namespace {

struct Case {
  Layout layout;  // tensor, pipeline, data x context
  const char* schedule = "1f1b";
  bool deepseek = false;
  int zero = 0;
  int context = 1;
  int expert = 1;
  int slices = 0;
  int chunks = 1;
  bool paired = false;
  Recompute recompute = Recompute::none;
  RecomputeModules recomputed = kCoreAttention;
  int modules = 0;  // MTP modules
  double capacity = 0;
  DType precision = DType::fp32;
};

const Case kCases[] = {
    {.layout = {1, 1, 1}, .recompute = Recompute::full},
    {.layout = {1, 1, 1},
     .schedule = "zb-h1",
     .recompute = Recompute::selective,
     .recomputed = {.moe = true}},
    {.layout = {1, 1, 1}, .deepseek = true, .recompute = Recompute::full, .modules = 1},
    {.layout = {1, 1, 1}, .schedule = "zb-h1", .precision = DType::bf16},
    {.layout = {1, 1, 1}, .schedule = "gpipe", .recompute = Recompute::full},  // long after the forward
    {.layout = {1, 1, 2}},
    {.layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 3, .recompute = Recompute::full},
    {.layout = {1, 1, 2},
     .deepseek = true,
     .zero = 2,
     .expert = 2,
     .recompute = Recompute::full,
     .modules = 1},
    {.layout = {1, 1, 2}, .zero = 1, .context = 2},
    {.layout = {1, 1, 2},
     .schedule = "zb-h1",
     .recompute = Recompute::selective,
     .recomputed = {.moe = true},
     .capacity = 1},
    {.layout = {2, 1, 1}, .schedule = "zb-h1"},
    {.layout = {2, 1, 1}, .deepseek = true, .expert = 1, .slices = 1, .recompute = Recompute::full},
    {.layout = {1, 2, 1}, .schedule = "zb-h1", .deepseek = true},
    {.layout = {1, 2, 1}, .schedule = "interleaved", .chunks = 2, .recompute = Recompute::full},
    {.layout = {1, 2, 1}, .schedule = "zb-v", .deepseek = true},
    {.layout = {2, 1, 2}, .zero = 3, .expert = 2},
    {.layout = {2, 1, 2}, .deepseek = true, .expert = 4, .slices = 1},
    {.layout = {1, 2, 2},
     .schedule = "interleaved",
     .deepseek = true,
     .expert = 2,
     .chunks = 2,
     .paired = true},
    {.layout = {1, 1, 4}, .schedule = "zb-h1", .zero = 2, .context = 2, .expert = 2},
    {.layout = {1, 1, 4}, .precision = DType::bf16},
};

ModelConfig model_of(const Case& c) {
  ModelConfig model = c.deepseek ? small_deepseek(true) : small_mixture(true);
  if (!c.deepseek) model.mixture.experts = 8;
  model.prediction_modules = c.modules;
  return model;
}

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = model_of(c);
  set_layout(config, c.layout);
  config.parallel.context = c.context;
  if (c.context > 1) config.parallel.cp.comm_type = CpCommType::all_gather;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.pp.virtual_chunks = c.chunks;
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.ep.overlap_comm = c.paired;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.recompute.modules = c.recomputed;
  config.numerics.precision = c.precision;
  config.mixture.capacity_factor = c.capacity;
  config.mixture.aux_loss_coeff = 2;
  config.mixture.load_balancing = LoadBalancing::global_aux_loss;
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 8;
  return config;
}

/// On one rank, whose micro-batches are those of all copies of the model together.
StepResult alone(const Case& c) {
  Case plain{.layout = {1, 1, 1}, .deepseek = c.deepseek, .modules = c.modules, .capacity = c.capacity};
  RunConfig config = config_of(plain);
  config.batch.micro_batch_size = c.layout.data / c.context;
  SoloCommunicator solo;
  return one_step(config, solo);
}

TEST(GlobalBalanceStep, GradientsMemoryAndTrafficAreTheSameInEverySplit) {
  int compared = 0;
  for (const Case& c : kCases) {
    RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} cp{} ep{} {} zero{}", c.layout.tensor, c.layout.pipeline,
                             c.layout.data, c.context, c.expert, c.schedule, c.zero));
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    ++compared;
    expect_routed_memory(config, found);
    expect_routed_traffic(config, found, communicator.rank());
    if (communicator.rank() != 0) continue;
    const bool others_drop = c.capacity > 0 && c.layout.data > 1;  // a capacity is of a copy's micro-batch
    expect_step(alone(c), found, c.precision == DType::bf16 || others_drop);
  }
  EXPECT_GT(compared, 1);
}

/// Counts of one step are forgotten in the next: the same tokens with the same weights give the same
/// gradients.
TEST(GlobalBalanceStep, EveryStepCountsAnew) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank shows it";
  RunConfig config = config_of({.layout = {1, 1, 1}});
  config.optimizer.learning_rate = config.optimizer.weight_decay = 0;
  config.files.data = fmt::format("{}/tests/golden/qwen2/tokens.npy", PLUMBLINE_SOURCE_DIR);
  config.batch.seq_length = config.model.position.max = 43;
  config.batch.global_batch_size = 3;  // of 129 tokens, so that every step has the same
  SoloCommunicator solo;
  const StepResult first = last_step(config, 1, solo);
  const StepResult third = last_step(config, 3, solo);
  ASSERT_EQ(first.loss, third.loss);
  std::string worst;
  EXPECT_EQ(largest_error(first.gradients, third.gradients, worst), 0) << worst;
}

/// For one micro-batch on one rank it is the micro-batch's own loss; for several it is not.
TEST(GlobalBalanceStep, OneMicrobatchIsTheWholeBatch) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank shows it";
  RunConfig config = config_of({.layout = {1, 1, 1}});
  SoloCommunicator solo;
  const StepResult apart = one_step(config, solo);
  config.batch.micro_batch_size = config.batch.global_batch_size;
  const StepResult together = one_step(config, solo);
  config.mixture.load_balancing = LoadBalancing::aux_loss;
  const StepResult plain = one_step(config, solo);
  expect_gradients(plain.gradients, together.gradients, 1e-6);
  std::string worst;
  EXPECT_GT(largest_error(plain.gradients, apart.gradients, worst), 1e-3);
}

nlohmann::json golden_of(const std::string& folder) {
  std::ifstream file(folder + "/expected.json");
  return nlohmann::json::parse(file);
}

TEST(GlobalBalanceStep, GradientsOfBalanceEqualPyTorchs) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks have shown it";
  int compared = 0;
  for (const char* const name : {"softmax_aux", "softmax_seq", "softmax_global", "softmax_global_two",
                                 "sigmoid_seq", "sigmoid_global", "sigmoid_global_two"}) {
    SCOPED_TRACE(name);
    const std::string golden = fmt::format("{}/tests/golden/", PLUMBLINE_SOURCE_DIR);
    const std::string folder = golden + "balance/" + name;
    const nlohmann::json expected = golden_of(folder);
    const int copies = expected["copies"].get<int>();
    if (copies != ranks) continue;
    ++compared;
    RunConfig config = load_run_config(
        fmt::format("{}families/{}/run.yaml", golden, expected["model"].get<std::string>()),
        {{"moe_router_load_balancing_type", expected["moe_router_load_balancing_type"].get<std::string>()},
         {"moe_aux_loss_coeff", fmt::format("{}", expected["moe_aux_loss_coeff"].get<double>())},
         {"micro_batch_size", fmt::format("{}", expected["micro_batch_size"].get<int>())}});
    set_layout(config, {1, 1, copies});
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    EXPECT_NEAR(found.loss / expected["loss"].get<double>(), 1, 1e-5);
    if (communicator.rank() != 0) continue;
    const Tensors gradients = tensors_of(folder + "/gradients.safetensors");
    Tensors of_these;
    for (const auto& [tensor, values] : gradients) of_these[tensor] = found.gradients.at(tensor);
    EXPECT_GE(gradients.size(), 2U);
    expect_gradients(gradients, of_these, 1e-4);
  }
  EXPECT_GE(compared, 2);
}

/// Both copies of a layer take micro-batches of their own at a time.
TEST(GlobalBalanceStep, SchedulesOfTwoDirectionsAreRefused) {
  RunConfig config = config_of({.layout = {1, 2, 1}, .schedule = "dualpipe"});
  try {
    schedule_for(config);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("global_aux_loss, expected one"), std::string::npos)
        << error.what();
  }
  config.mixture.load_balancing = LoadBalancing::aux_loss;
  EXPECT_NO_THROW(schedule_for(config));
}

/// Its all-reduces are in the predicted time of a forward, and not in that of a forward that is repeated.
TEST(GlobalBalanceStep, TakesAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks != 2) GTEST_SKIP() << "two ranks show it";
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    RunConfig config;
    config.model = small_mixture(true);
    config.model.layers = 2;
    config.model.position.max = config.batch.seq_length = 64;
    config.batch.global_batch_size = 8;
    config.mixture.aux_loss_coeff = 0.01;
    config.mixture.load_balancing = LoadBalancing::global_aux_loss;
    config.recompute.granularity = recompute;
    set_emulated(config);
    config.measure.warmup_steps = 1;
    config.measure.steps = 1;
    set_layout(config, {1, 1, 2});
    expect_as_predicted(emulated_step(config), 0.01);
  }
}

}  // namespace
}  // namespace plumbline::training::global_balance_step_test
