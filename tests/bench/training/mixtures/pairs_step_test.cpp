// Expert exchanges behind another micro-batch's computation: losses, gradients and traffic equal those of the
// same schedule without, bit for bit. Memory is as predicted, after every action and at its peak, on every
// rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bench/training/trainer/trainer.hpp"
#include "core/run/step_observer.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/mixtures/hidden_exchanges.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::pairs_step_test {
namespace {

struct PairCase {
  Layout layout;  // tensor, pipeline, data
  const char* schedule;
  bool latent = false;  // DeepSeek's layers, three of them without experts
  int zero = 0;
  RecomputeModules recomputed{};
  bool messages_ahead = false;
  DType precision = DType::fp32;
  int slices = 0;
  int expert = 2;
  bool gathers = false;  // parameters, in the first forward
  int modules = 0;
  bool fp8 = false;
  bool full = false;  // recomputation
};
constexpr PairCase kPairCases[] = {
    {.layout = {1, 1, 2}, .schedule = "1f1b"},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 2, .recomputed = {.moe = true}},
    {.layout = {1, 1, 2},
     .schedule = "1f1b",
     .zero = 1,
     .recomputed = {.core_attn = true},
     .precision = DType::bf16},
    {.layout = {1, 1, 2}, .schedule = "dualpipev", .latent = true, .zero = 1},
    {.layout = {1, 2, 2}, .schedule = "dualpipev", .messages_ahead = true},
    {.layout = {1, 2, 2}, .schedule = "dualpipe", .latent = true, .zero = 1, .gathers = true},
    {.layout = {1, 2, 2}, .schedule = "1f1b", .latent = true, .zero = 2},
    {.layout = {1, 2, 2}, .schedule = "interleaved", .zero = 1, .messages_ahead = true},
    {.layout = {1, 1, 4}, .schedule = "1f1b", .zero = 2, .gathers = true},
    {.layout = {2, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 1},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 2, .modules = 2},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 1, .gathers = true, .fp8 = true},
    {.layout = {1, 1, 2}, .schedule = "dualpipev", .fp8 = true},
    {.layout = {1, 2, 2}, .schedule = "1f1b", .latent = true, .zero = 1, .gathers = true, .modules = 1},
    {.layout = {2, 1, 2}, .schedule = "dualpipev", .slices = 1, .expert = 4},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 3, .gathers = true},
    {.layout = {1, 2, 2}, .schedule = "dualpipe", .latent = true, .zero = 3},
    {.layout = {1, 1, 2}, .schedule = "1f1b", .latent = true, .zero = 3, .modules = 1, .full = true},
    {.layout = {1, 1, 2}, .schedule = "dualpipev", .zero = 1, .full = true},
    {.layout = {1, 1, 4}, .schedule = "dualpipev", .zero = 3, .gathers = true, .fp8 = true},
};

RunConfig config_of(const PairCase& c) {
  RunConfig config;
  config.model = c.latent ? small_deepseek(true) : small_mixture(true);
  if (!c.latent) {
    config.model.layers = 4;
    config.model.mixture.experts = 8;
  }
  if (c.fp8) {
    config.model.ffn = 32;
    config.model.mixture.shared = c.latent ? 32 : 0;
    config.model.mixture.dense_ffn = c.latent ? 96 : 0;
    if (c.latent) config.model.latent = {32, 16, 16, 16, 48};
    config.model.head_dim = c.latent ? 32 : 16;
    config.model.rotary.dim = c.latent ? 16 : config.model.rotary.dim;
    config.numerics.fp8.format = Fp8Format::hybrid;
  }
  config.model.prediction_modules = c.modules;
  set_layout(config, c.layout);
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.pp.schedule = c.schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.dp.overlap_param_gather = c.gathers;
  config.parallel.pp.overlap_p2p_comm = c.messages_ahead;
  config.parallel.make_vocab_size_divisible_by = 8;
  if (c.recomputed != RecomputeModules{}) {
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = c.recomputed;
  }
  if (c.full) config.recompute = {.granularity = Recompute::full, .num_layers = 2};
  config.numerics.precision = c.precision;
  config.mixture.aux_loss_coeff = 0.02;
  config.batch.seq_length = c.fp8 ? 16 : 12;
  config.batch.global_batch_size = 8 * c.layout.data;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

TEST(OverlappedPairs, AreTheSameStepWithThePredictedMemory) {
  int compared = 0;
  for (const PairCase& c : kPairCases) {
    const RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} ep{} {} zero{}", c.layout.tensor, c.layout.pipeline,
                             c.layout.data, c.expert, c.schedule, c.zero));
    expect_same_step(config, &ExpertParallelConfig::overlap_comm);
    ++compared;
  }
  EXPECT_GT(compared, 1);
}

/// Looks on: whichever works has begun, and is another one than before.
class WorkingActions final : public StepObserver {
 public:
  void action_begins(const Action& action, Bytes /*message*/) override {
    open_.push_back(action);
    last_.reset();
  }
  void action_goes_on(const Action& action) override {
    EXPECT_EQ(open_.size(), 2U);
    EXPECT_NE(std::find(open_.begin(), open_.end(), action), open_.end()) << to_string(action);
    EXPECT_FALSE(last_ == action) << to_string(action);
    last_ = action;
    ++changes;
  }
  void action_ends(const Action& action) override { std::erase(open_, action); }
  int changes = 0;

 private:
  std::vector<Action> open_;
  std::optional<Action> last_;
};

/// Each layer of a pair hands over at its exchanges, and an observer hears of it.
TEST(OverlappedPairs, TellWhichActionWorks) {
  RunConfig config = config_of(kPairCases[0]);
  if (config.parallel.world_size != world_ranks()) GTEST_SKIP() << "a case of two ranks";
  config.parallel.ep.overlap_comm = true;
  config.measure.warmup_steps = 0;
  const Schedule schedule = schedule_for(config);
  const auto& actions = schedule.actions.front();
  const auto pairs = std::count_if(actions.begin(), actions.end(),
                                   [](const Action& action) { return action.overlaps_next; });
  ASSERT_GT(pairs, 0);
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  WorkingActions working;
  train(config, schedule, *operators, communicator, communicator, host_memory(), {}, &working);
  EXPECT_GE(working.changes, pairs * 2 * config.model.layers);
}

/// Weight gradients behind their pairs (delay_wgrad_compute) make the step without pairs.
TEST(OverlappedPairs, DelayedWeightGradientsMakeThePlainStep) {
  int compared = 0;
  for (const PairCase& c : kPairCases) {
    RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    config.parallel.ep.overlap_comm = config.parallel.ep.delay_wgrad_compute = true;
    if (why_invalid(config)) continue;
    SCOPED_TRACE(fmt::format("tp{} pp{} dp{} ep{} {} zero{}", c.layout.tensor, c.layout.pipeline,
                             c.layout.data, c.expert, c.schedule, c.zero));
    MpiCommunicator communicator(config.layout());
    const StepResult delayed = one_step(config, schedule_for(config), communicator);
    expect_routed_memory(config, delayed);
    config.parallel.ep.overlap_comm = config.parallel.ep.delay_wgrad_compute = false;
    const StepResult plain = one_step(config, schedule_for(config), communicator);
    EXPECT_NEAR(delayed.loss / plain.loss, 1, 1e-5);
    EXPECT_NEAR(delayed.gradient_norm / plain.gradient_norm, 1, 1e-5);
    expect_gradients(plain.gradients, delayed.gradients, 1e-5);
    ++compared;
  }
  EXPECT_GT(compared, 1);
}

}  // namespace
}  // namespace plumbline::training::pairs_step_test
