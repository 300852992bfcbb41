// LoRA on emulated accelerators: the real training code takes as long as predicted, and less than without.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {
namespace {

struct Case {
  Layout layout;
  LoraTargets targets;
  int zero = 0;
  bool overlap = true;
};
constexpr Case kCases[] = {
    {{1, 1, 1}, LoraTargets::qkv},    {{1, 1, 1}, LoraTargets::attention},     {{1, 1, 1}, LoraTargets::all},
    {{2, 1, 1}, LoraTargets::all},    {{1, 2, 1}, LoraTargets::attention},     {{1, 1, 2}, LoraTargets::all},
    {{1, 1, 2}, LoraTargets::all, 1}, {{1, 1, 2}, LoraTargets::all, 1, false},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 6;
  config.model.hidden = 4096;
  config.model.head_dim = 128;
  config.model.heads = 32;
  config.model.kv_heads = 8;
  config.model.ffn = 3 * 4096;
  config.batch.seq_length = config.model.max_positions = 4096;
  config.batch.global_batch_size = 4;
  config.numerics.precision = DType::bf16;
  config.machine.backend = Backend::emulated;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.zero_stage = c.zero;
  config.parallel.overlap_grad_reduce = c.overlap;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, c.layout);
  return config;
}

TEST(LoraOnEmulatedDevices, TakesAsLongAsPredicted) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    RunConfig config = config_of(c);
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    const Seconds all = predict(config, schedule_for(config), hardware).time.step;
    config.finetune = {Frozen::lora, 32, 64, c.targets};
    const Prediction prediction = predict(config, schedule_for(config), hardware);
    MpiCommunicator control(config.layout());
    EmulatedClock clock = EmulatedClock::of_virtual_time();
    EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
    const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
    const TrainingResult result =
        train(config, schedule_for(config), *operators, communicator, control, untouched_memory(), {});
    const Seconds step = result.step_times.front();
    const std::string figures = fmt::format(
        "tp{} pp{} dp{} zero {} targets {}: predicted {:.1f} us, emulated {:.1f}, all parameters {:.1f}",
        c.layout.tensor, c.layout.pipeline, c.layout.data, c.zero, static_cast<int>(c.targets),
        1e6 * prediction.time.step.value, 1e6 * step.value, 1e6 * all.value);
    fmt::print("{}\n", figures);
    EXPECT_NEAR(step / prediction.time.step, 1, 0.01) << figures;
    EXPECT_LT(step.value, 0.9 * all.value) << figures;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(result.memory[static_cast<std::size_t>(rank)].at_peak, prediction.memory.of_rank(rank).peak)
          << figures;
    }
  }
}

}  // namespace
}  // namespace plumbline::training
