// Offloaded activations on emulated accelerators: the real training code on the emulated lane takes as long,
// and waits as long for copies, as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::offload_emulated_time_test {
namespace {

struct Case {
  const char* name;
  const char* schedule;
  std::int64_t hidden;
  std::int64_t layers;  // that are offloaded
  Layout layout;
  int zero = 0;
  Recompute recompute = Recompute::none;
  const char* hardware = "h100-sxm-80gb";
  int expert = 1;  // above 1: a mixture, spread over ranks
  bool fp8 = false;
};
// The wider layers are, the more of their copies they hide: over PCIe even wide ones not all.
constexpr Case kCases[] = {
    {"wide", "1f1b", 8192, 3, {1, 1, 1}},
    {"narrow", "1f1b", 2048, 5, {1, 1, 1}},
    {"wide, NVLink to the host", "1f1b", 16384, 3, {1, 1, 1}, 0, Recompute::none, "gb200-nvl72"},
    {"split backward", "zb-h1", 4096, 2, {1, 1, 1}},
    {"recomputed", "1f1b", 4096, 5, {1, 1, 1}, 0, Recompute::selective},
    {"two stages", "1f1b", 4096, 2, {1, 2, 1}},
    {"two stages, split", "zb-v", 4096, 1, {1, 2, 1}},
    {"tensor ranks", "1f1b", 4096, 4, {2, 1, 1}},
    {"sharded", "1f1b", 4096, 4, {1, 1, 2}, 3},
    {"gathered by the first forward", "zb-h1", 4096, 4, {1, 1, 2}, 1},
    {.name = "FP8", .schedule = "1f1b", .hidden = 4096, .layers = 4, .layout = {1, 1, 1}, .fp8 = true},
    {.name = "experts over ranks",
     .schedule = "1f1b",
     .hidden = 4096,
     .layers = 3,
     .layout = {1, 1, 2},
     .zero = 1,
     .expert = 2},
    {.name = "experts over ranks, FP8, split backward",
     .schedule = "zb-h1",
     .hidden = 4096,
     .layers = 3,
     .layout = {1, 1, 2},
     .expert = 2,
     .fp8 = true},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 6;
  config.model.hidden = c.hidden;
  config.model.head_dim = 128;
  config.model.heads = c.hidden / 128;
  config.model.kv_heads = config.model.heads / 2;
  config.model.ffn = 3 * c.hidden;
  if (c.expert > 1) {
    config.model.architecture = "mixtral";
    config.model.biases.qkv = config.model.embedding.tied = false;
    config.model.ffn = 2048;
    config.model.mixture = {8, 2, true};
    config.parallel.expert = c.expert;
  }
  if (c.fp8) config.numerics.fp8.format = Fp8Format::hybrid;
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 4;
  config.numerics.precision = DType::bf16;
  config.recompute.granularity = c.recompute;
  config.machine.backend = Backend::emulated;
  config.machine.hardware = c.hardware;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  if (c.zero == 1) config.parallel.dp.overlap_param_gather = true;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, c.layout);
  return config;
}

TEST(OffloadOnEmulatedDevices, TakesAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    SCOPED_TRACE(c.name);
    RunConfig config = config_of(c);
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    for (const std::int64_t layers : {std::int64_t{0}, c.layers}) {
      config.offload.num_layers = layers;
      const Prediction prediction = predict(config, schedule_for(config), hardware);
      const StepTime& predicted = prediction.time;
      MpiCommunicator control(config.layout());
      EmulatedClock clock = EmulatedClock::of_virtual_time();
      EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
      const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
      const auto host = emulated_host_lane(clock, emulated_host_copies(hardware));
      const TrainingResult result = train(config, schedule_for(config), *operators, communicator, control,
                                          untouched_memory(), {}, nullptr, {}, {}, host.get());
      const Seconds step = result.step_times.front();
      const std::string figures =
          fmt::format("{} layers: predicted {:.1f} us of which {:.1f} exposed, emulated {:.1f} and {:.1f}",
                      layers, 1e6 * predicted.step.value, 1e6 * predicted.exposed_offload.value,
                      1e6 * step.value, 1e6 * result.host_waits.value);
      fmt::print("{}, {}\n", c.name, figures);
      if (c.hidden == 16384) {
        EXPECT_EQ(predicted.exposed_offload.value, 0) << figures;
      }
      EXPECT_NEAR(step / predicted.step, 1, 0.01) << figures;
      EXPECT_NEAR((result.host_waits - predicted.exposed_offload) / predicted.step, 0, 0.01) << figures;
      for (int rank = 0; rank < ranks; ++rank) {
        const MeasuredMemory& memory = result.memory[static_cast<std::size_t>(rank)];
        EXPECT_EQ(memory.at_peak, prediction.memory.of_rank(rank).peak);
        EXPECT_EQ(memory.host, prediction.memory.of_rank(rank).host);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::offload_emulated_time_test
