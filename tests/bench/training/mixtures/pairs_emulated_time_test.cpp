// Exchanges of experts behind another micro-batch's computation on emulated H100s: the real training code on the emulated
// lanes takes as long as predicted, and less than the same schedule without.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/evaluate/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {
namespace {

struct Case {
  const char* schedule;
  Layout layout;
  int zero;
  double step;  // at most, of the one without overlap
};
constexpr Case kCases[] = {
    {"1f1b", {1, 1, 2}, 0, 0.95},        {"1f1b", {1, 1, 2}, 2, 0.95},      {"dualpipev", {1, 1, 2}, 1, 0.97},
    {"dualpipe", {1, 2, 2}, 1, 0.98},    {"dualpipev", {1, 2, 2}, 0, 0.98}, {"1f1b", {1, 2, 2}, 1, 1.1},
    {"interleaved", {1, 2, 2}, 1, 1.05},
};

/// Layers as DeepSeek-V3's, a few narrow ones of few experts: exchanges are a third of them.
RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_deepseek(true);
  config.model.layers = 6;
  config.model.hidden = 2048;
  config.model.heads = config.model.kv_heads = 16;
  config.model.latent = {512, 256, 128, 64, 128};
  config.model.head_dim = 192;
  config.model.rotary_dim = 64;
  config.model.ffn = 512;
  config.model.mixture.experts = 16;
  config.model.mixture.top_k = 4;
  config.model.mixture.shared = 512;
  config.model.mixture.first_dense = 1;
  config.model.mixture.dense_ffn = 4096;
  config.batch.seq_length = config.model.max_positions = 4096;
  config.batch.global_batch_size = 8 * c.layout.data;
  config.numerics.precision = DType::bf16;
  config.machine.backend = Backend::emulated;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.schedule = c.schedule;
  if (config.parallel.schedule == "interleaved") config.parallel.virtual_chunks = 2;
  config.parallel.zero_stage = c.zero;
  set_layout(config, c.layout);
  config.parallel.expert = c.layout.data;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

TrainingResult emulate(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware) {
  MpiCommunicator control(config.layout());
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
  const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
  return train(config, schedule, *operators, communicator, control, untouched_memory(), {});
}

/// What a pair's cost lines (0F+0B) have of an exchange, waited for or alongside, is what those of its actions have.
void expect_whole_exchanges(const std::vector<CostLine>& lines) {
  const auto alone = [&](int stage, char type, const std::string& label) {
    const char* phase = type == 'F' ? "forward" : type == 'B' ? "backward" : "backward input";
    Seconds sum;
    for (const CostLine& line : lines) {
      if (line.stage == stage && line.phase == phase && line.label == label) sum += line.seconds;
    }
    return sum;
  };
  Seconds hidden;
  for (const CostLine& line : lines) {
    const std::string& pair = line.phase;
    if (pair.size() != 5 || pair[2] != '+' || line.label == "slower alongside collectives") continue;
    const Seconds all = alone(pair[0] - '0', pair[1], line.label) + alone(pair[3] - '0', pair[4], line.label);
    EXPECT_NEAR((line.seconds + line.hidden) / all, 1, 1e-9) << pair << " " << line.label;
    hidden += line.hidden;
  }
  EXPECT_GT(hidden.value, 0);
}

TEST(OverlappedPairsOnEmulatedDevices, TakeAsLongAsPredicted) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Case& c : kCases) {
    RunConfig config = config_of(c);
    if (config.parallel.world_size != ranks) continue;
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    Seconds without;
    for (const bool overlap : {false, true}) {
      config.parallel.overlap_moe_expert_parallel_comm = overlap;
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      const Schedule schedule = schedule_for(config);
      const Prediction prediction = predict(config, schedule, hardware);
      const StepTime& predicted = prediction.time;
      const TrainingResult emulated = emulate(config, schedule, hardware);
      const Seconds step = emulated.step_times.front();
      if (!overlap) without = step;
      const std::string figures = fmt::format(
          "{} pp{} ZeRO-{} overlap {}: predicted {:.1f} us of which {:.1f} exposed, emulated {:.1f} and "
          "{:.1f}",
          c.schedule, c.layout.pipeline, c.zero, overlap, 1e6 * predicted.step.value,
          1e6 * predicted.exposed_tensor.value, 1e6 * step.value, 1e6 * emulated.tensor_communication.value);
      fmt::print("{}\n", figures);
      if (!overlap) continue;  // data_overlap_emulated_time_test, expert_step_test
      expect_whole_exchanges(prediction.lines);
      EXPECT_NEAR(step / predicted.step, 1, 0.01) << figures;
      EXPECT_NEAR((emulated.tensor_communication - predicted.exposed_tensor) / step, 0, 0.015) << figures;
      EXPECT_LT(step / without, c.step) << figures;
    }
  }
}

}  // namespace
}  // namespace plumbline::training
