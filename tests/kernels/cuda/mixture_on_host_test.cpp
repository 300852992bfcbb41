// A training step of MoE models on two ranks, with the CUDA operators run on the host. Experts have the same
// tokens; loss and gradients equal those of one rank with the CPU's operators. Memory is as predicted for
// backend cuda.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {
namespace {

struct MixtureCase {
  const char* name;
  int layers;
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  bool sequence_parallel = false;
  DType precision = DType::fp32;
  TokenDispatcher dispatcher = TokenDispatcher::automatic;  // else each rank has half of the experts
  double capacity = 0;
  TokenDropPolicy policy = TokenDropPolicy::probs;
  bool padded = false;
  int sequences = 1;  // of a micro-batch; more: balanced by themselves
  int zero = 0;
  RecomputeModules modules{};
  std::optional<Fp8Recipe> fp8{};
  bool global = false;  // the global batch is balanced
};
constexpr RecomputeModules kModules{
    .core_attn = true, .moe_act = true, .layernorm = true, .mla_up_proj = true, .mlp = true};
constexpr auto kTogether = TokenDispatcher::automatic;
// Layers of DeepSeek's and GLM's begin with three dense ones.
constexpr MixtureCase kMixtureCases[] = {
    {"mixtral", 2, {2, 1, 1}, "1f1b", true},
    {"mixtral", 2, {1, 1, 2}, "1f1b", false, DType::bf16},
    {"qwen2_moe", 2, {2, 1, 1}, "zb-h1", true, DType::fp32, kTogether, 0.8},
    {"qwen3_moe", 2, {1, 1, 2}, "1f1b", false, DType::fp32, kTogether, 1, TokenDropPolicy::position, true},
    {"deepseek_v3", 5, {2, 1, 1}, "1f1b", true},
    {"deepseek_v3", 5, {1, 1, 2}, "zb-h1", false, DType::bf16},
    {"deepseek_v3", 6, {1, 2, 1}, "1f1b", false, DType::fp32, kTogether, 0.7},
    {"glm4_moe", 4, {1, 1, 2}},
    {"deepseek_v3", 5, {1, 1, 2}, "zb-h1", false, DType::fp32, TokenDispatcher::alltoall},
    {"glm4_moe", 5, {1, 1, 2}, "1f1b", false, DType::bf16, TokenDispatcher::alltoall},
    {"deepseek_v3", 4, {1, 1, 2}, "1f1b", false, DType::fp32, TokenDispatcher::allgather},
    {.name = "deepseek_v3", .layers = 4, .layout = {1, 1, 2}, .sequences = 2, .zero = 3},
    {.name = "mixtral", .layers = 2, .layout = {2, 1, 1}, .sequence_parallel = true, .sequences = 2},
    {.name = "deepseek_v3",
     .layers = 4,
     .layout = {1, 1, 2},
     .dispatcher = TokenDispatcher::alltoall,
     .zero = 3,
     .modules = kModules},
    {.name = "deepseek_v3",
     .layers = 4,
     .layout = {1, 1, 2},
     .dispatcher = TokenDispatcher::alltoall,
     .modules = {.moe = true},
     .global = true},
    {.name = "mixtral", .layers = 2, .layout = {1, 1, 2}, .schedule = "zb-h1", .zero = 3, .global = true},
    {.name = "qwen2_moe",
     .layers = 2,
     .layout = {2, 1, 1},
     .schedule = "zb-h1",
     .sequence_parallel = true,
     .precision = DType::bf16,
     .fp8 = Fp8Recipe::tensorwise},
    {.name = "glm4_moe",
     .layers = 4,
     .layout = {1, 1, 2},
     .precision = DType::bf16,
     .dispatcher = TokenDispatcher::alltoall,
     .zero = 3,
     .fp8 = Fp8Recipe::delayed},
    {.name = "deepseek_v3",
     .layers = 4,
     .layout = {2, 1, 1},
     .schedule = "zb-h1",
     .sequence_parallel = true,
     .precision = DType::bf16,
     .fp8 = Fp8Recipe::tensorwise},
};

RunConfig mixture_config(const MixtureCase& c, bool alone) {
  const std::string name = c.name;
  RunConfig config;
  config.model = name == "deepseek_v3" || name == "glm4_moe" ? small_deepseek(name == "deepseek_v3")
                                                             : small_mixture(name != "qwen3_moe");
  if (name == "qwen2_moe") {
    config.model.architecture = name;
    config.model.mixture.shared = 24;
  }
  if (c.fp8) {  // multiples of 16
    config.model.ffn = config.model.mixture.shared = 32;
    if (name == "glm4_moe") config.model.mixture.dense_ffn = 48;
    if (name == "deepseek_v3") {
      config.model.mixture.dense_ffn = 96;
      config.model.latent = {32, 16, 16, 16, 48};
      config.model.head_dim = 32;
      config.model.rotary.dim = 16;
    }
    config.numerics.fp8.format = Fp8Format::hybrid;
    config.numerics.fp8.recipe = *c.fp8;
  }
  config.model.layers = c.layers;
  config.numerics.precision = c.precision;
  config.batch = {.seq_length = c.fp8 ? 64 : 40, .micro_batch_size = c.sequences, .global_batch_size = 4};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.mixture.capacity_factor = c.capacity;
  config.mixture.drop_policy = c.policy;
  config.mixture.pad_to_capacity = c.padded;
  config.mixture.aux_loss_coeff = 0.02;
  if (c.sequences > 1) config.mixture.load_balancing = LoadBalancing::seq_aux_loss;
  if (c.global) config.mixture.load_balancing = LoadBalancing::global_aux_loss;
  config.mixture.z_loss_coeff = 0.003;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  if (alone && c.global) config.batch.micro_batch_size *= c.layout.data;  // equally many at a time
  if (alone) return config;
  set_layout(config, c.layout);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.sequence_parallel = c.sequence_parallel;
  config.parallel.dp.zero_stage = c.zero;
  if (c.modules != RecomputeModules()) {
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = c.modules;
  }
  config.parallel.ep.token_dispatcher = c.dispatcher;
  if (c.dispatcher != kTogether) config.parallel.expert = 2;
  config.machine.backend = Backend::cuda;
  return config;
}

TEST(MixturesOnCuda, GiveTheSingleRanksGradientsInThePredictedMemory) {
  cuda::CudaOperators operators(CudaOptions{});
  for (const MixtureCase& c : kMixtureCases) {
    SCOPED_TRACE(
        fmt::format("{}, {}, {}, capacity {}", c.name, c.schedule, name_of(c.precision), c.capacity));
    const RunConfig config = mixture_config(c, false);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, operators, communicator);
    expect_routed_memory(config, found);
    if (communicator.rank() != 0) continue;
    SoloCommunicator solo;
    const StepResult reference = one_step(mixture_config(c, true), solo);
    const bool rounds = c.precision != DType::fp32;
    EXPECT_NEAR(found.loss / reference.loss, 1, rounds ? 1e-2 : 1e-5);
    if (rounds) continue;  // a logit that is rounded otherwise may choose another expert
    std::string worst;
    EXPECT_LE(largest_error(reference.gradients, found.gradients, worst), 1e-4) << worst;
  }
}

/// Experts have other numbers of rows in every layer, micro-batch and step.
TEST(MixturesOnCuda, ReserveLittleMoreThanThePeak) {
  cuda::CudaOperators operators(CudaOptions{});
  RunConfig config = mixture_config(
      {.name = "deepseek_v3", .layers = 4, .layout = {1, 1, 2}, .dispatcher = TokenDispatcher::alltoall},
      false);
  config.measure.steps = 4;
  ASSERT_EQ(why_invalid(config).value_or(""), "");
  MpiCommunicator communicator(config.layout());
  const TrainingResult result =
      train(config, schedule_for(config), operators, communicator, communicator, host_memory(), {});
  for (const MeasuredMemory& memory : result.memory) {
    EXPECT_LE(static_cast<double>(memory.reserved.value),
              1.25 * static_cast<double>(memory.at_peak.total().value));
  }
}

}  // namespace
}  // namespace plumbline::training
