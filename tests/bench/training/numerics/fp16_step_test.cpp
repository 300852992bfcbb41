// fp16: gradients of a scaled loss are those of fp32 up to its rounding, on one rank and split; memory and
// traffic are as predicted; overflows skip the step on every rank.
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/sure_overflow.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/first_rank.hpp"

namespace plumbline::training::fp16_step_test {
namespace {

RunConfig small_run(ModelConfig model, DType precision) {
  RunConfig config;
  config.model = std::move(model);
  config.model.layers = 2;
  config.numerics.precision = precision;
  config.batch = {.seq_length = 16, .micro_batch_size = 1, .global_batch_size = 4};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  return config;
}

struct Case {
  const char* name;
  ModelConfig (*model)();
  Layout layout;  // tensor, pipeline, data
  void (*loss)(RunConfig&) = nullptr;
  void (*split)(RunConfig&) = nullptr;
};
ModelConfig experts() {
  ModelConfig model = small_mixture(true);
  model.mixture.experts = 6;
  return model;
}
void balanced(RunConfig& config) {
  config.mixture.aux_loss_coeff = 0.5;
  config.mixture.z_loss_coeff = 0.1;
}
void taught(RunConfig& config) {
  config.distillation.teacher = small_gpt2();
  config.distillation.lm_weight = 0.5;
}
const Case kCases[] = {
    {"llama", small_qwen2, {1, 1, 1}},
    {"gpt2, 16-bit gradients",
     small_gpt2,
     {1, 1, 1},
     nullptr,
     [](RunConfig& c) { c.numerics.grad_dtype = GradDType::same; }},
    {"loss in fp32",
     small_qwen2,
     {1, 1, 1},
     nullptr,
     [](RunConfig& c) { c.numerics.cross_entropy_loss_fusion = false; }},
    {"losses of the router", experts, {1, 1, 1}, balanced},
    {"losses of a module", small_qwen2, {1, 1, 1}, [](RunConfig& c) { c.model.prediction_modules = 1; }},
    {"teacher", small_qwen2, {1, 1, 1}, taught},
    {"tensor ranks", small_gpt2, {2, 1, 1}},
    {"tensor ranks, sequence parallel, unfused attention",
     small_qwen2,
     {2, 1, 1},
     nullptr,
     [](RunConfig& c) {
       c.parallel.sequence_parallel = true;
       c.numerics.attention_backend = AttentionBackend::unfused;
     }},
    {"stages, vocabulary over both",
     small_qwen2,
     {1, 2, 1},
     nullptr,
     [](RunConfig& c) { c.parallel.pp.vocab_parallel = VocabPasses::one_barrier; }},
    {"stages, backward in two parts",
     small_gpt2,
     {1, 2, 1},
     nullptr,
     [](RunConfig& c) { c.parallel.pp.schedule = "zb-h1"; }},
    {"replicas", small_qwen2, {1, 1, 2}},
    {"replicas, ZeRO 1, 16-bit gradients",
     small_gpt2,
     {1, 1, 2},
     nullptr,
     [](RunConfig& c) {
       c.parallel.dp.zero_stage = 1;
       c.numerics.grad_dtype = GradDType::same;
     }},
    {"experts over both, ZeRO 3",
     experts,
     {1, 1, 2},
     balanced,
     [](RunConfig& c) {
       c.parallel.expert = 2;
       c.parallel.dp.zero_stage = 3;
     }},
};

RunConfig config_of(const Case& c) {
  RunConfig config = small_run(c.model(), DType::fp16);
  if (c.loss != nullptr) c.loss(config);
  set_layout(config, c.layout);
  if (c.split != nullptr) c.split(config);
  config.numerics.loss_scale.constant = 512;
  return config;
}

/// Seen: 5e-3, of biases of keys, whose gradients nearly cancel.
constexpr double kRounding = 8e-3;

TEST(Fp16, GivesFp32sGradientsInThePredictedMemory) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    SCOPED_TRACE(c.name);
    const RunConfig config = config_of(c);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    const Schedule schedule = schedule_for(config);
    const bool routed = config.model.mixture.experts > 0;  // some sizes follow the routing
    if (!routed) {
      const MemoryPrediction memory = predict_memory(config, schedule);
      for (std::size_t rank = 0; rank < found.memory.size(); ++rank)
        EXPECT_EQ(memory.of_rank(static_cast<int>(rank)).peak, found.memory[rank].at_peak) << rank;
      EXPECT_TRUE(same(predict_traffic(config, schedule)[static_cast<std::size_t>(communicator.rank())],
                       found.traffic));
    }
    on_first_rank([&] {
      SoloCommunicator solo;
      RunConfig exact = small_run(c.model(), DType::fp32);
      if (c.loss != nullptr) c.loss(exact);
      const StepResult reference = one_step(exact, solo);
      EXPECT_NEAR(found.loss / reference.loss, 1, kRounding);
      EXPECT_NEAR(found.gradient_norm / reference.gradient_norm, 1, kRounding);
      std::string worst;
      EXPECT_LE(largest_error(reference.gradients, found.gradients, worst), kRounding) << worst;
    });
  }
}

TrainingResult run_of(const RunConfig& config) {
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  return train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
}

struct Scaling {
  const char* name;
  LossScaleConfig config;
  double learning_rate;
  LossScaleState after;  // six steps
};
constexpr double kTooLarge = 1e12;  // for any gradient
const Scaling kScalings[] = {
    {"doubled after every second step", {{}, 256, 1, 2, 2}, 0.01, {2048, 0, 2, 0}},
    {"constant", {512, 65536, 1, 1, 1}, 0.01, {512, 0, 1, 0}},
    {"constant, too large", {kTooLarge, 65536, 1, 1, 1}, 0.01, {kTooLarge, 0, 1, 6}},
    {"halved from the second overflow on", {{}, kTooLarge, 1, 9, 2}, 0.01, {kTooLarge / 32, 0, -4, 6}},
    {"not below the smallest", {{}, kTooLarge, kTooLarge / 4, 9, 1}, 0.01, {kTooLarge / 4, 0, -5, 6}},
};

TEST(Fp16, OverflowsSkipStepsOnEveryRank) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::vector<Layout> layouts =
      ranks == 1 ? std::vector<Layout>{{1, 1, 1}} : std::vector<Layout>{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  for (const Layout& layout : layouts) {
    const auto run_with = [&](const LossScaleConfig& scale, double rate) {
      RunConfig config = small_run(small_gpt2(), DType::fp16);
      set_layout(config, layout);
      config.parallel.dp.zero_stage = layout.data > 1 ? 1 : 0;
      config.numerics.loss_scale = scale;
      config.optimizer.learning_rate = rate;
      config.measure.steps = 6;
      return run_of(config);
    };
    const std::vector<double> untrained = run_with({512, 65536, 1, 1, 1}, 0).losses;
    for (const Scaling& scaling : kScalings) {
      SCOPED_TRACE(scaling.name);
      const TrainingResult found = run_with(scaling.config, scaling.learning_rate);
      ASSERT_TRUE(found.loss_scale);
      EXPECT_EQ(*found.loss_scale, scaling.after)
          << found.loss_scale->scale << ' ' << found.loss_scale->growth << ' ' << found.loss_scale->hysteresis
          << ' ' << found.loss_scale->skipped;
      EXPECT_EQ(found.losses == untrained, scaling.after.skipped == 6);
    }
  }
}

/// With the first scales, too large for any gradient, no step gathers parameters; with a smaller one
/// the first does.
TEST(Fp16, FirstStepsHaveThePredictedTraffic) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) GTEST_SKIP() << "one rank has no traffic";
  for (int zero = 0; zero <= 3; ++zero) {
    for (const bool ahead : {false, true}) {
      if (ahead && zero == 0) continue;
      for (const double first : {LossScaleConfig().initial, 1024.0}) {
        for (const int steps : {1, 3}) {
          SCOPED_TRACE(testing::Message() << "ZeRO " << zero << ", gathers ahead " << ahead << ", scale "
                                          << first << ", steps " << steps);
          RunConfig config = small_run(small_qwen2(), DType::fp16);
          set_layout(config, {1, 1, 2});
          config.parallel.dp.zero_stage = zero;
          if (zero > 0) config.parallel.dp.overlap_param_gather = ahead;
          config.numerics.loss_scale.initial = first;
          config.measure.steps = steps;
          ASSERT_EQ(why_invalid(config).value_or(""), "");
          MpiCommunicator communicator(config.layout());
          const auto operators = make_cpu_operators();
          const Schedule schedule = schedule_for(config);
          const TrainingResult found =
              train(config, schedule, *operators, communicator, communicator, host_memory(), {});
          ASSERT_TRUE(found.loss_scale);
          EXPECT_EQ(found.loss_scale->skipped, first > 1024 ? steps : 0);
          const auto rank = static_cast<std::size_t>(communicator.rank());
          EXPECT_TRUE(same(predict_traffic(config, schedule)[rank], found.step_traffic));
          EXPECT_EQ(overflow_note(config).has_value(), first > 1024);
        }
      }
    }
  }
}

/// The rule of certain overflows never names a run that makes an update.
TEST(Fp16, ARunThatSurelyOverflowsMakesNoUpdate) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1) GTEST_SKIP() << "one rank shows it";
  for (const auto& model : {small_qwen2(), small_gpt2(), small_mixture(true)}) {
    for (double initial = 256; initial <= 0x1p32; initial *= 16) {
      RunConfig config = small_run(model, DType::fp16);
      config.numerics.loss_scale.initial = initial;
      config.numerics.loss_scale.hysteresis = 1;
      config.measure.steps = 2;
      const bool updates = run_of(config).loss_scale->skipped < 2;
      EXPECT_FALSE(updates && overflows_in_every_step(config)) << initial;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::fp16_step_test
