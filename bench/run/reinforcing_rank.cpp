#include "bench/run/reinforcing_rank.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/evaluate/emulation.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/plan/plan.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/backends/mpi/agreement.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/reinforcement/phases.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {
namespace {

using reinforcement::ReinforcementResult;

ReinforcementResult reinforce_emulated(const RunConfig& config, const Schedule& schedule,
                                       MpiCommunicator& control,
                                       const reinforcement::ReinforcementProgress& progress) {
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  const MachineConfig& machine = config.machine;
  EmulatedClock clock = machine.emulated_clock == EmulatedTime::virtual_time
                            ? EmulatedClock::of_virtual_time()
                            : EmulatedClock(machine.emulated_time_factor, control.clock_offset());
  const auto communicator = [&](const Layout& layout) {
    return std::make_unique<EmulatedCommunicator>(layout, clock, emulated_links(hardware, layout), nullptr);
  };
  const auto training = communicator(config.layout());
  const auto rollout = communicator(rollout_config(config).layout());
  const auto operators = make_emulated_operators(
      clock, emulated_call_time(config, hardware, config.measure.slowdown_of(control.rank())));
  const auto host = emulated_host_lane(clock, emulated_host_copies(hardware));
  return reinforcement::reinforce(config, schedule, *operators, *training, *rollout, control,
                                  untouched_memory(), host.get(), progress);
}

ReinforcementResult reinforce_on_cpu(const RunConfig& config, const Schedule& schedule,
                                     MpiCommunicator& communicator,
                                     const reinforcement::ReinforcementProgress& progress) {
  MpiCommunicator rollout(rollout_config(config).layout());
  const auto operators = make_cpu_operators();
  return reinforcement::reinforce(config, schedule, *operators, communicator, rollout, communicator,
                                  host_memory(), nullptr, progress);
}

}  // namespace

int run_as_reinforcing_rank(const RunConfig& config,
                            const std::function<void(const ReinforcementResult&)>& write) {
  bind_this_rank();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    require_same_on_all_ranks(describe(config));
    MpiCommunicator communicator(config.layout());
    const auto progress = [](int done, int all, double reward) {
      say(fmt::format("step {} of {}{}\n", done, all,
                      std::isnan(reward) ? "" : fmt::format(", reward {:.4f}", reward)));
    };
    const Schedule schedule = schedule_for(config);
    const ReinforcementResult result = config.machine.backend == Backend::emulated
                                           ? reinforce_emulated(config, schedule, communicator, progress)
                                           : reinforce_on_cpu(config, schedule, communicator, progress);
    if (communicator.rank() == 0) write(result);
    return static_cast<int>(ExitCode::done);
  });
}

}  // namespace plumbline
