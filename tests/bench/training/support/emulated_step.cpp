#include "tests/bench/training/support/emulated_step.hpp"

#include <gtest/gtest.h>

#include "analysis/hardware/hardware.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline::training {

void set_emulated(RunConfig& config) {
  config.machine.backend = Backend::emulated;
  config.machine.hardware = "h100-sxm-80gb";
}

void widen(ModelConfig& model, std::int64_t layers, std::int64_t ffn, std::int64_t kv_heads) {
  model.layers = layers;
  model.hidden = 2048;
  model.head_dim = 128;
  model.heads = 16;
  model.kv_heads = kv_heads;
  model.ffn = ffn;
}

TrainingResult emulate(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware) {
  MpiCommunicator control(config.layout());
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
  const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
  return train(config, schedule, *operators, communicator, control, untouched_memory(), {});
}

EmulatedStep emulated_step(const RunConfig& config) {
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  const Schedule schedule = schedule_for(config);
  return {predict(config, schedule, hardware),
          predict_traffic(config, schedule)[static_cast<std::size_t>(world_rank())],
          emulate(config, schedule, hardware)};
}

void expect_as_predicted(const EmulatedStep& step, double tolerance) {
  EXPECT_NEAR(step.time_ratio(), 1, tolerance);
  for (std::size_t rank = 0; rank < step.result.memory.size(); ++rank) {
    EXPECT_EQ(step.result.memory[rank].at_peak, step.predicted.memory.of_rank(static_cast<int>(rank)).peak)
        << "rank " << rank;
  }
  EXPECT_TRUE(same(step.traffic, step.result.step_traffic));
}

}  // namespace plumbline::training
