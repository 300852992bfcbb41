// Steps of GRPO and PPO with the CUDA operators run on the host, on a device that nothing else can touch:
// numbers of the CPU's operators, memory as predicted for backend cuda (a refit's with messages within 5 %).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "bench/training/reinforcement/reinforcement_run.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"
#include "tests/kernels/cuda/reinforcement/guarded_device.hpp"

namespace plumbline::reinforcement {
namespace {

StepCommunicators over_mpi(const RunConfig& config, MPI_Comm pool, test::GuardedDevice* device) {
  return step_communicators(config,
                            [&](const Layout& layout, bool alone, auto) -> std::unique_ptr<Communicator> {
                              MpiOptions options;
                              if (alone) options.world = pool;
                              auto made = std::make_unique<MpiCommunicator>(layout, options);
                              if (device == nullptr) return made;
                              return test::guarded_messages(std::move(made), *device);
                            });
}

/// As on a GPU, behind a rehearsal.
ReinforcementResult run_on_device(RunConfig config) {
  config.machine.backend = Backend::cuda;
  EXPECT_EQ(why_phases_invalid(config).value_or(""), "");
  const Schedule schedule = schedule_for(config);
  EXPECT_EQ(why_not_executed(config, schedule), "");
  test::GuardedDevice device;
  const MpiComm pool = pool_of_first(config.parallel.world_size);
  const StepCommunicators control = over_mpi(config, pool.get(), nullptr);
  const StepCommunicators messages = over_mpi(config, pool.get(), &device);
  const auto operators =
      test::guarded_operators(std::make_unique<cuda::CudaOperators>(CudaOptions{}), device);
  const auto lane = test::guarded_host_lane(device);
  if (messages.training) {
    rehearse(config, schedule, *operators, *messages.training, control.pool(), test::guarded_memory(device),
             lane.get());
  }
  return reinforce(config, schedule, *operators, messages, control, test::guarded_memory(device), lane.get());
}

void expect_predicted_memory(RunConfig config, const ReinforcementResult& found) {
  config.machine.backend = Backend::cuda;
  const ReinforcementPrediction prediction =
      predict_reinforcement(config, *find_hardware_preset("h100-sxm-80gb"), step_for);
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    for (const StepPhase& each : prediction.phases) {
      if (each.name != phase_name(phase) || sum_of(each.memory) == Bytes{}) continue;
      const auto measured = static_cast<double>(found.phases[i].peak.value);
      const auto predicted = static_cast<double>(sum_of(each.memory).value);
      const bool sends = phase == Phase::refit && found.refit_sent.value > 0;
      EXPECT_NEAR(predicted / measured, 1, sends ? 0.05 : 0) << each.name;
    }
  }
}

TEST(ReinforcementOnHost, ComputesTheCpusNumbersInThePredictedMemory) {
  for (const QuickRun& run : quick_runs(training::world_ranks())) {
    SCOPED_TRACE(run.name);
    const RunConfig config = config_of(run);
    const ReinforcementResult found = run_on_device(config);
    expect_same(found, run_on_cpu(config));
    if (!found.losses.empty()) expect_predicted_memory(config, found);
  }
}

}  // namespace
}  // namespace plumbline::reinforcement
