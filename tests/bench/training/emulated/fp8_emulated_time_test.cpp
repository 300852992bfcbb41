// FP8 linear layers, and the switches of families, on emulated H100s: the operators of the real training code
// in a step take as long together as predicted. No clock is read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::fp8_emulated_time_test {
namespace {

struct Case {
  const char* name;
  Layout layout;
  Fp8Recipe recipe;
  int zero;
  const char* schedule;
  std::int64_t window = 0;  // of the second layer
  bool experts = false;
  int expert = 1;  // ranks that these are spread over
  bool latent = false;
  RecomputeModules recomputed{};
  bool gathers = false;  // values, in the first forward
};
constexpr auto kDelayed = Fp8Recipe::delayed;
constexpr auto kTensorwise = Fp8Recipe::tensorwise;
const Case kCases[] = {
    {"one rank", {1, 1, 1}, kDelayed, 0, "1f1b"},
    {"one rank, scales of tensors", {1, 1, 1}, kTensorwise, 0, "1f1b"},
    {"sequence parallel", {2, 1, 1}, kDelayed, 0, "1f1b"},
    {"sequence parallel, scales of tensors", {2, 1, 1}, kTensorwise, 0, "1f1b"},
    {"weights at every use", {1, 1, 2}, kTensorwise, 3, "1f1b"},
    {"input and weight gradients apart", {1, 1, 1}, kDelayed, 0, "zb-h1"},
    {"a sliding window", {1, 1, 1}, kDelayed, 0, "1f1b", 512},
    {"a sliding window, sequence parallel", {2, 1, 1}, kDelayed, 0, "1f1b", 512},
    {"experts", {1, 1, 1}, kDelayed, 0, "1f1b", 0, true},
    {"experts, scales of tensors", {1, 1, 1}, kTensorwise, 0, "zb-h1", 0, true},
    {"experts, sequence parallel", {2, 1, 1}, kDelayed, 0, "zb-h1", 0, true},
    {"experts over ranks", {1, 1, 2}, kTensorwise, 3, "1f1b", 0, true, 2},
    {"latent attention", {1, 1, 1}, kDelayed, 0, "1f1b", 0, true, 1, true},
    {"latent attention, scales of tensors", {1, 1, 1}, kTensorwise, 0, "zb-h1", 0, true, 1, true},
    {"latent attention, sequence parallel", {2, 1, 1}, kTensorwise, 0, "1f1b", 0, true, 1, true},
    {"latent attention, weights at every use", {1, 1, 2}, kTensorwise, 3, "zb-h1", 0, true, 2, true},
    {.name = "gathered in the first forward",
     .layout = {1, 1, 2},
     .recipe = kDelayed,
     .zero = 1,
     .schedule = "1f1b",
     .gathers = true},
    {.name = "experts gathered in the first forward",
     .layout = {1, 1, 2},
     .recipe = kTensorwise,
     .zero = 2,
     .schedule = "1f1b",
     .experts = true,
     .expert = 2,
     .gathers = true},
    {.name = "recomputed, sequence parallel",
     .layout = {2, 1, 1},
     .recipe = kDelayed,
     .zero = 0,
     .schedule = "1f1b",
     .recomputed = {.layernorm = true, .mlp = true}},
    {.name = "latent attention, recomputed",
     .layout = {1, 1, 1},
     .recipe = kTensorwise,
     .zero = 0,
     .schedule = "zb-h1",
     .experts = true,
     .latent = true,
     .recomputed = {.moe_act = true, .layernorm = true, .mla_up_proj = true, .shared_experts = true}},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 2;
  config.model.window.size = c.window;
  if (c.window > 0) config.model.window.full_layers = {true, false};
  config.model.hidden = 4096;
  config.model.heads = config.model.kv_heads = 32;
  config.model.head_dim = 128;
  config.model.ffn = 8192;
  if (c.experts) {
    config.model.architecture = "qwen2_moe";
    config.model.biases.qkv = config.model.embedding.tied = false;
    config.model.ffn = 2048;
    config.model.mixture = {8, 2, true};
    config.model.mixture.shared = 2048;
    config.parallel.expert = c.expert;
  }
  if (c.latent) {
    config.model.architecture = "deepseek_v3";
    config.model.latent = {768, 512, 64, 64, 96};
    config.model.rotary.dim = 64;
  }
  config.batch.seq_length = 4096;
  config.model.position.max = 4096;
  config.numerics.precision = DType::bf16;
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.numerics.fp8.recipe = c.recipe;
  set_emulated(config);
  config.parallel.sequence_parallel = true;
  config.parallel.dp.zero_stage = c.zero;
  if (c.gathers) config.parallel.dp.overlap_param_gather = true;
  config.parallel.pp.schedule = c.schedule;
  config.batch.global_batch_size = 2;
  if (c.recomputed != RecomputeModules()) {
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = c.recomputed;
  }
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, c.layout);
  return config;
}

/// Sums up the times of all calls, which themselves take no time.
class SummedOperators final : public Operators {
 public:
  SummedOperators(EmulatedClock& clock, CallTime time) : clock_(clock), time_(std::move(time)) {}
  Seconds sum() const { return sum_; }
#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) \
  type name parameters override {                             \
    return one()->name arguments;                             \
  }
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override {
    return make_emulated_operators(clock_, time_)->attention_scratch(shape, type);
  }

 private:
  /// Asks for the time of its first call, as operators do that know none yet.
  std::unique_ptr<Operators> one() {
    return make_emulated_operators(clock_, [this](const EmulatedCall& call) {
      sum_ += time_(call);
      return Seconds{};
    });
  }
  EmulatedClock& clock_;
  CallTime time_;
  Seconds sum_;
};

Seconds sum_of_steps(RunConfig config, int steps, const HardwareProfile& hardware) {
  config.measure.steps = steps;
  MpiCommunicator control(config.layout());
  EmulatedClock clock(1, control.clock_offset());
  EmulatedLinks links;
  links.message = [](Bytes, int, int) { return EmulatedTransfer{}; };
  links.collective = [](const EmulatedCollective&) { return Seconds{}; };
  EmulatedCommunicator communicator(config.layout(), clock, links);
  SummedOperators operators(clock, emulated_call_time(config, hardware));
  train(config, schedule_for(config), operators, communicator, control, untouched_memory(), {});
  return operators.sum();
}

/// Collectives within a node take no time, by constants or by measured tables.
void make_free(Machine& machine) {
  machine.network.node_bandwidth = machine.network.message_bandwidth = 1e30;
  machine.network.node_base_s = machine.network.node_step_s = 0;
  machine.device.measured = nullptr;
}

TEST(Fp8OnEmulatedDevices, TakesAsLongAsPredicted) {
  for (const Case& c : kCases) {
    if (c.layout.world() != world_ranks()) continue;
    SCOPED_TRACE(c.name);
    const RunConfig config = config_of(c);
    HardwareProfile hardware = load_hardware(config.machine.hardware);
    make_free(hardware.accelerator()->constants);
    const Seconds predicted = predict(config, schedule_for(config), hardware).time.step;
    // The first step differs: it finds the first scales.
    const Seconds called = sum_of_steps(config, 2, hardware) - sum_of_steps(config, 1, hardware);
    EXPECT_NEAR(called / predicted, 1, 0.01)
        << fmt::format("predicted {:.1f} us, called {:.1f} us", 1e6 * predicted.value, 1e6 * called.value);
  }
}

struct FamilyCase {
  const char* preset;
  Layout layout;
  std::int64_t prefix = 0;
  int zero = 0;
  const char* schedule = "1f1b";
  double unfused_dropout = -1;  // of probabilities, in unfused attention; negative: it is fused
};
constexpr FamilyCase kFamilyCases[] = {
    {"phi-2", {1, 1, 1}},
    {"baichuan2-7b", {1, 1, 1}, 0, 0, "zb-h1"},
    {"chatglm-6b", {1, 1, 1}, 300},
    {"glm-10b", {1, 1, 1}, 300},
    {"falcon-7b", {1, 1, 1}, 0, 0, "zb-h1"},
    {"bloom-7b1", {1, 1, 1}},
    {"llama-3.1-8b", {1, 1, 1}, 0, 0, "zb-h1", 0},
    {"bloom-7b1", {1, 1, 1}, 0, 0, "1f1b", 0.1},
    {"llama-3.1-8b", {2, 1, 1}, 0, 0, "1f1b", 0.1},
    {"phi-2", {2, 1, 1}},
    {"baichuan2-7b", {1, 1, 2}, 0, 3},
    {"glm-130b", {2, 1, 1}, 300},
    {"glm-10b", {2, 1, 1}, 300, 0, "zb-h1"},
};

TEST(FamiliesOnEmulatedDevices, TakeAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const FamilyCase& c : kFamilyCases) {
    if (c.layout.world() != ranks) continue;
    RunConfig config = config_of({c.preset, c.layout, Fp8Recipe::delayed, c.zero, c.schedule});
    config.numerics.fp8 = {};
    config.model = *find_preset(c.preset);
    config.model.layers = 2;
    config.batch.seq_length = 1024;
    config.batch.prefix_length = c.prefix;
    if (c.unfused_dropout >= 0) {
      config.numerics.attention_backend = AttentionBackend::unfused;
      config.numerics.attention_dropout = c.unfused_dropout;
    }
    HardwareProfile hardware = load_hardware(config.machine.hardware);
    make_free(hardware.accelerator()->constants);
    const Seconds predicted = predict(config, schedule_for(config), hardware).time.step;
    const Seconds called = sum_of_steps(config, 2, hardware) - sum_of_steps(config, 1, hardware);
    // On two ranks, only one of which adds learned positions.
    EXPECT_NEAR(called / predicted, 1, ranks == 1 ? 0.002 : 0.005)
        << fmt::format("{} tp{}: predicted {:.1f} us, called {:.1f} us", c.preset, c.layout.tensor,
                       1e6 * predicted.value, 1e6 * called.value);
  }
}

}  // namespace
}  // namespace plumbline::training::fp8_emulated_time_test
