// A step whose experts are spread over ranks: gradients and their norm equal those of a single rank. Memory,
// on every rank and after every action, and traffic are as predicted for the actual routing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>

#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::expert_step_test {
namespace {

enum class Model { mixtral, shared, deepseek, many };

ModelConfig model_of(Model kind) {
  if (kind == Model::deepseek) return small_deepseek(true);
  ModelConfig model = small_qwen2();
  model.architecture = "mixtral";
  model.biases.qkv = model.embedding.tied = false;
  model.ffn = 16;
  model.mixture = {8, 2, true};
  if (kind == Model::shared) {
    model.architecture = "qwen2_moe";
    model.mixture.shared = 24;
  }
  if (kind == Model::many) model.mixture = {16, 1, true};
  return model;
}

struct Capacity {
  double factor = 0;
  TokenDropPolicy policy = TokenDropPolicy::probs;
  bool padded = false;
};

struct Case {
  int expert;
  Layout layout;  // tensor, pipeline, data × context
  const char* schedule = "1f1b";
  Model model = Model::mixtral;
  int zero = 0;
  Recompute recompute = Recompute::none;
  DType precision = DType::fp32;
  int context = 1;
  bool overlap = true;  // of gradient reductions, and of gathered values
  const char* vocabulary = "none";
  std::int64_t seq = 12;
  TokenDispatcher dispatcher = TokenDispatcher::alltoall;
  int slices = 0;  // of an expert; 0: as tensor ranks
  Capacity capacity{};
  RecomputeModules recomputed = kCoreAttention;  // of selective recomputation
  bool tensor_overlap = false;
  int secondary_shards = 1;
};
/// Recomputed by module.
constexpr Case recomputing(const RecomputeModules& modules, Case c) {
  c.recompute = Recompute::selective;
  c.recomputed = modules;
  return c;
}
constexpr TokenDispatcher kGathered = TokenDispatcher::allgather;
/// An expert has at most `factor` times the mean.
constexpr Case limited(double factor, TokenDropPolicy policy, bool padded, Case c) {
  c.capacity = {factor, policy, padded};
  return c;
}
constexpr Case kCases[] = {
    {2, {1, 1, 2}},
    {2, {1, 1, 2}, "zb-h1", Model::shared, 1, Recompute::full},
    {2, {1, 1, 2}, "gpipe", Model::deepseek, 2, Recompute::selective, DType::bf16},
    {2, {1, 1, 2}, "zb-h1", Model::deepseek, 2},
    {2, {1, 1, 2}, "1f1b", Model::shared, 1, Recompute::full, DType::fp32, 2, false},
    {4, {1, 1, 4}, "1f1b", Model::many, 0, Recompute::none, DType::fp32, 1, true, "none", 2},
    {2, {1, 1, 4}, "zb-h1", Model::mixtral, 0, Recompute::none, DType::fp32, 1, false},
    {2, {1, 1, 4}, "1f1b", Model::deepseek, 1, Recompute::full, DType::fp32, 1, false},
    {2, {1, 1, 4}, "1f1b", Model::shared, 2, Recompute::full, DType::bf16, 2},
    {2, {2, 1, 2}, "zb-h1", Model::shared, 2},
    {2, {1, 2, 2}, "zb-v", Model::deepseek, 0, Recompute::full},
    {2, {1, 2, 2}, "v-half", Model::mixtral, 1, Recompute::none, DType::fp32, 1, true, "vocab-2"},
    {2, {1, 2, 2}, "dualpipe", Model::deepseek, 1},
    {2, {1, 1, 2}, "1f1b", Model::shared, 3, Recompute::full},
    {2, {1, 1, 2}, "zb-h1", Model::deepseek, 3, Recompute::selective, DType::bf16},
    {2, {1, 1, 4}, "1f1b", Model::deepseek, 3, Recompute::full},
    {2, {1, 1, 4}, "zb-h1", Model::shared, 3, Recompute::none, DType::bf16, 2, false},
    {2, {2, 1, 2}, "1f1b", Model::shared, 3},
    // Only values besides the experts' have secondary shards.
    {.expert = 2, .layout = {1, 1, 4}, .model = Model::deepseek, .zero = 3, .secondary_shards = 2},
    {.expert = 4,
     .layout = {1, 1, 4},
     .schedule = "zb-h1",
     .model = Model::shared,
     .zero = 3,
     .recompute = Recompute::full,
     .overlap = false,
     .secondary_shards = 2},
    limited(0.8, TokenDropPolicy::probs, false, {2, {1, 1, 2}, "zb-h1", Model::shared, 1}),
    limited(1.2, TokenDropPolicy::position, true, {2, {1, 1, 2}, "1f1b", Model::mixtral, 2, Recompute::full}),
    limited(0.5, TokenDropPolicy::position, false,
            {4, {1, 1, 4}, "1f1b", Model::many, 0, Recompute::none, DType::fp32, 1, true, "none", 2}),
    limited(1, TokenDropPolicy::probs, false, {2, {2, 1, 2}, "1f1b", Model::mixtral, 1, Recompute::full}),
    limited(1, TokenDropPolicy::probs, true, {2, {1, 2, 2}, "zb-v", Model::deepseek}),
    {.expert = 2, .layout = {1, 1, 2}, .dispatcher = kGathered},
    {.expert = 2,
     .layout = {1, 1, 2},
     .schedule = "zb-h1",
     .model = Model::deepseek,
     .zero = 2,
     .recompute = Recompute::full,
     .precision = DType::bf16,
     .dispatcher = kGathered},
    {.expert = 4, .layout = {1, 1, 4}, .model = Model::many, .seq = 2, .dispatcher = kGathered},
    {.expert = 2,
     .layout = {1, 1, 4},
     .schedule = "zb-h1",
     .model = Model::shared,
     .zero = 1,
     .context = 2,
     .overlap = false,
     .dispatcher = kGathered},
    {.expert = 2,
     .layout = {2, 1, 2},
     .schedule = "zb-h1",
     .model = Model::shared,
     .zero = 2,
     .precision = DType::bf16,
     .dispatcher = kGathered},
    {.expert = 2,
     .layout = {1, 2, 2},
     .schedule = "zb-v",
     .model = Model::deepseek,
     .recompute = Recompute::full,
     .dispatcher = kGathered},
    // Experts cut regardless of tensor ranks.
    {.expert = 2, .layout = {2, 1, 1}, .slices = 1},
    {.expert = 1, .layout = {2, 1, 1}, .schedule = "zb-h1", .model = Model::shared, .slices = 1},
    {.expert = 1, .layout = {1, 1, 2}, .schedule = "zb-h1", .model = Model::deepseek, .zero = 2, .slices = 2},
    {.expert = 1,
     .layout = {1, 1, 2},
     .model = Model::shared,
     .recompute = Recompute::full,
     .precision = DType::bf16,
     .dispatcher = kGathered,
     .slices = 2},
    {.expert = 2, .layout = {2, 1, 1}, .model = Model::deepseek, .dispatcher = kGathered, .slices = 1},
    {.expert = 4, .layout = {2, 1, 2}, .model = Model::many, .zero = 1, .seq = 2, .slices = 1},
    {.expert = 2,
     .layout = {2, 1, 2},
     .schedule = "zb-h1",
     .model = Model::deepseek,
     .zero = 2,
     .recompute = Recompute::full,
     .slices = 1},
    {.expert = 2,
     .layout = {1, 1, 4},
     .schedule = "zb-h1",
     .model = Model::shared,
     .zero = 1,
     .context = 2,
     .slices = 2},
    {.expert = 1, .layout = {2, 1, 2}, .schedule = "zb-h1", .model = Model::deepseek, .zero = 3, .slices = 1},
    {.expert = 1, .layout = {4, 1, 1}, .model = Model::shared, .precision = DType::bf16, .slices = 2},
    {.expert = 2,
     .layout = {1, 2, 2},
     .schedule = "dualpipe",
     .model = Model::deepseek,
     .dispatcher = kGathered,
     .slices = 1},
    {.expert = 1, .layout = {2, 2, 1}, .schedule = "dualpipev", .model = Model::deepseek, .slices = 1},
    // Attention's products overlap with tensor-parallel collectives; those of dense layers, too.
    {.expert = 2,
     .layout = {2, 1, 2},
     .model = Model::deepseek,
     .zero = 1,
     .recompute = Recompute::full,
     .tensor_overlap = true},
    {.expert = 2, .layout = {2, 1, 2}, .schedule = "zb-h1", .model = Model::shared, .tensor_overlap = true},
    {.expert = 1, .layout = {2, 1, 1}, .model = Model::deepseek, .slices = 1, .tensor_overlap = true},
    recomputing({.moe = true}, {2, {1, 1, 2}, "zb-h1", Model::shared, 2}),
    recomputing({.moe_act = true, .layernorm = true, .shared_experts = true},
                {2, {1, 1, 2}, "1f1b", Model::shared, 1}),
    recomputing({.mlp = true, .moe = true},
                {.expert = 2, .layout = {1, 1, 2}, .model = Model::deepseek, .dispatcher = kGathered}),
    recomputing({.moe_act = true}, limited(0.8, TokenDropPolicy::probs, false, {2, {1, 1, 2}, "zb-h1"})),
    recomputing({.moe_act = true, .layernorm = true},
                {.expert = 4, .layout = {1, 1, 4}, .schedule = "zb-h1", .model = Model::many, .seq = 2}),
    recomputing({.core_attn = true, .layernorm = true, .moe = true},
                {.expert = 4, .layout = {2, 1, 2}, .model = Model::many, .zero = 1, .seq = 2, .slices = 1}),
    recomputing({.moe_act = true, .mla_up_proj = true, .shared_experts = true},
                {2, {1, 2, 2}, "zb-v", Model::deepseek}),
    recomputing({.layernorm = true, .mla_up_proj = true},
                {.expert = 2, .layout = {1, 1, 4}, .model = Model::deepseek, .zero = 1, .context = 2}),
    recomputing({.layernorm = true, .shared_experts = true}, {.expert = 2,
                                                              .layout = {2, 1, 2},
                                                              .schedule = "zb-h1",
                                                              .model = Model::shared,
                                                              .zero = 2,
                                                              .dispatcher = kGathered}),
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = model_of(c.model);
  set_layout(config, c.layout);
  config.parallel.context = c.context;
  if (c.context > 1) {
    const bool exchanges = c.model == Model::deepseek;
    config.parallel.cp.comm_type = exchanges ? CpCommType::a2a : CpCommType::all_gather;
  }
  config.parallel.expert = c.expert;
  config.parallel.ep.token_dispatcher = c.dispatcher;
  config.parallel.expert_tensor = c.slices;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.tp.comm_overlap = c.tensor_overlap;
  config.parallel.dp.hpz_partition_size = c.secondary_shards;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.dp.overlap_grad_reduce = c.overlap;
  config.parallel.dp.overlap_param_gather =
      c.overlap && c.zero > 0 && (c.zero == 3 || c.vocabulary == std::string("none"));
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.recompute.modules = c.recomputed;
  config.numerics.precision = c.precision;
  config.mixture.capacity_factor = c.capacity.factor;
  config.mixture.drop_policy = c.capacity.policy;
  config.mixture.pad_to_capacity = c.capacity.padded;
  config.mixture.aux_loss_coeff = 0.02;
  config.mixture.z_loss_coeff = 0.003;
  config.batch.seq_length = c.seq;
  config.batch.global_batch_size = 8;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

StepResult alone(const Case& c) {
  RunConfig config = config_of(c);
  set_layout(config, {1, 1, 1});
  config.parallel.context = config.parallel.expert = 1;
  config.parallel.expert_tensor = 0;
  config.parallel.pp.schedule = "1f1b";
  config.parallel.sequence_parallel = false;
  config.parallel.dp.zero_stage = 0;
  config.parallel.dp.hpz_partition_size = 1;
  config.parallel.pp.vocab_parallel = VocabPasses::none;
  config.recompute.granularity = Recompute::none;
  SoloCommunicator solo;
  return one_step(config, solo);
}

/// Places in layers and micro-batches where the experts of an EP rank had no row.
int ranks_without_rows(const RunConfig& config, const StepResult& found) {
  const int ranks = config.parallel.expert;
  const std::size_t local = static_cast<std::size_t>(config.model.mixture.experts / ranks);
  std::map<std::array<std::int64_t, 3>, std::int64_t> rows;
  for (const RoutedTokens& line : found.routing) {
    for (std::size_t i = 0; i < line.tokens.size(); ++i)
      rows[{static_cast<std::int64_t>(i / local), line.layer, line.microbatch}] += line.tokens[i];
  }
  return static_cast<int>(
      std::count_if(rows.begin(), rows.end(), [](const auto& at) { return at.second == 0; }));
}

TEST(ExpertStep, GradientsMemoryAndTrafficAreTheSameInEverySplit) {
  int compared = 0;
  for (const Case& c : kCases) {
    RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("ep{} etp{} tp{} pp{} dp{} cp{} {} zero{} {}", c.expert, c.slices,
                             c.layout.tensor, c.layout.pipeline, c.layout.data, c.context, c.schedule, c.zero,
                             token_dispatcher_name(c.dispatcher)));
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    ++compared;
    expect_routed_memory(config, found);
    expect_routed_traffic(config, found, communicator.rank());
    if (c.model == Model::many) {
      EXPECT_GT(ranks_without_rows(config, found), 0);
    }
    if (communicator.rank() != 0) continue;
    expect_step(alone(c), found, c.precision == DType::bf16);
  }
  EXPECT_GT(compared, 1);
}

/// Weights are written whole and read by ranks with other parts of them; two steps of training are the same.
TEST(ExpertStep, WeightsAreWrittenAndReadInAnySplit) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  RunConfig config = config_of(kCases[1]);
  config.numerics.precision = DType::bf16;
  const std::string folder = testing::TempDir() + "/plumbline_spread_weights";
  config.files.save_weights = folder;
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  config.files.save_weights.clear();
  config.files.weights = folder;
  config.numerics.precision = DType::fp32;
  const StepResult spread = one_step(config, communicator);
  if (communicator.rank() != 0) return;
  set_layout(config, {1, 1, 1});
  config.parallel.expert = 1;
  config.parallel.dp.zero_stage = 0;
  SoloCommunicator solo;
  const StepResult whole = one_step(config, solo);
  expect_gradients(whole.gradients, spread.gradients, 1e-5);
  EXPECT_NEAR(spread.loss / whole.loss, 1, 1e-5);
  std::filesystem::remove_all(folder);
}

/// Experts have different numbers of rows in every layer, micro-batch and step: freed blocks of sizes that do
/// not recur are returned.
TEST(ExpertStep, ReservesLittleMoreThanThePeak) {
  RunConfig config = config_of(kCases[0]);
  set_layout(config, {1, 1, world_ranks()});
  config.batch.seq_length = config.model.position.max = 96;
  config.batch.global_batch_size = 8;
  config.measure.steps = 6;
  config.measure.warmup_steps = 0;
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  const TrainingResult result =
      train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  for (const MeasuredMemory& memory : result.memory)
    EXPECT_LE(static_cast<double>(memory.reserved.value),
              1.25 * static_cast<double>(memory.at_peak.total().value));
}

/// On devices that compute nothing experts have equally many rows, as predictions have it.
TEST(ExpertStep, TakesAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  struct Emulated {
    const char* schedule;
    int zero;
    TokenDispatcher dispatcher = TokenDispatcher::alltoall;
    int instances = 1;
  };
  constexpr TokenDispatcher kSent = TokenDispatcher::alltoall;
  for (const auto& [schedule, zero, dispatcher, instances] :
       {Emulated{"1f1b", 0}, Emulated{"1f1b", 2}, Emulated{"zb-h1", 0}, Emulated{"zb-h1", 1},
        Emulated{"1f1b", 0, kGathered}, Emulated{"zb-h1", 2, kGathered}, Emulated{"1f1b", 3},
        Emulated{"zb-h1", 3}, Emulated{"1f1b", 1, kSent, 2}, Emulated{"zb-h1", 2, kSent, 2},
        Emulated{"1f1b", 3, kSent, 2}}) {
    if (instances == ranks) continue;  // the same experts are on two of four
    RunConfig config = config_of(kCases[0]);
    set_layout(config, {1, 1, ranks});  // with four, two have the same experts
    config.parallel.ep.token_dispatcher = dispatcher;
    widen(config.model, 2, 1024);
    config.model.position.max = config.batch.seq_length = 2048;
    config.batch.global_batch_size = 4;
    set_emulated(config);
    config.parallel.pp.schedule = schedule;
    config.parallel.dp.zero_stage = zero;
    config.parallel.dp.optimizer_instances = instances;
    config.parallel.dp.overlap_param_gather = zero == 3 || (zero > 0 && dispatcher == kSent);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    const EmulatedStep step = emulated_step(config);
    SCOPED_TRACE(fmt::format("{} zero {} instances {}", schedule, zero, instances));
    expect_as_predicted(step, 0.02);
    // A rank exchanges as much as without a sharing rank: routed rows do not become fewer.
    const GroupTraffic& exchanged = step.result.step_traffic.of(Group::expert);
    const bool gathers = dispatcher == kGathered;
    EXPECT_GT((gathers ? exchanged.all_gathered : exchanged.exchanged).value, 0);
    EXPECT_EQ((gathers ? exchanged.exchanged : exchanged.all_gathered).value, 0);
  }
}

}  // namespace
}  // namespace plumbline::training::expert_step_test
