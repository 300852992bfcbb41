#include "bench/run/reinforcing_rank.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/cuda/cuda_backend.hpp"
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
using reinforcement::StepCommunicators;

ReinforcementResult reinforce_emulated(const RunConfig& config, const Schedule& schedule,
                                       const StepCommunicators& control, MPI_Comm pool, Seconds clock_offset,
                                       const reinforcement::ReinforcementProgress& progress) {
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  const MachineConfig& machine = config.machine;
  EmulatedClock clock = machine.emulated_clock == EmulatedTime::virtual_time
                            ? EmulatedClock::of_virtual_time()
                            : EmulatedClock(machine.emulated_time_factor, clock_offset);
  const auto messages =
      reinforcement::step_communicators(config, [&](const Layout& layout, bool alone, auto) {
        return std::make_unique<EmulatedCommunicator>(layout, clock, emulated_links(hardware, layout),
                                                      nullptr, alone ? pool : MPI_COMM_WORLD);
      });
  const auto operators = make_emulated_operators(
      clock, emulated_call_time(config, hardware, config.measure.slowdown_of(control.all().rank())));
  const auto host = emulated_host_lane(clock, emulated_host_copies(hardware));
  return reinforcement::reinforce(config, schedule, *operators, messages, control, untouched_memory(),
                                  host.get(), progress);
}

ReinforcementResult reinforce_on_cpu(const RunConfig& config, const Schedule& schedule,
                                     const StepCommunicators& communicators,
                                     const reinforcement::ReinforcementProgress& progress) {
  const auto operators = make_cpu_operators();
  return reinforcement::reinforce(config, schedule, *operators, communicators, communicators, host_memory(),
                                  nullptr, progress);
}

}  // namespace

int run_as_reinforcing_rank(const RunConfig& config,
                            const std::function<void(const ReinforcementResult&)>& write) {
  if (config.machine.backend == Backend::cuda) become_cuda_program();
  bind_this_rank();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    require_same_on_all_ranks(describe(config));
    const MpiComm pool = pool_of_first(config.parallel.world_size);
    MpiOptions of_pool;
    Seconds clock_offset;
    const auto communicators =
        reinforcement::step_communicators(config, [&](const Layout& layout, bool alone, auto) {
          auto made = std::make_unique<MpiCommunicator>(layout, alone ? of_pool : MpiOptions());
          of_pool = {.crowded = made->crowded(), .world = pool.get()};
          if (!alone) clock_offset = made->clock_offset();
          return made;
        });
    const auto progress = [](int done, int all, double reward) {
      say(fmt::format("step {} of {}{}\n", done, all,
                      std::isnan(reward) ? "" : fmt::format(", reward {:.4f}", reward)));
    };
    const Schedule schedule = schedule_for(config);
    const auto result = [&] {
      switch (config.machine.backend) {
        case Backend::emulated:
          return reinforce_emulated(config, schedule, communicators, pool.get(), clock_offset, progress);
        case Backend::cuda:
          return reinforce_on_cuda(config, schedule, communicators, pool.get(), progress);
        case Backend::cpu:
          break;
      }
      return reinforce_on_cpu(config, schedule, communicators, progress);
    }();
    if (communicators.all().rank() == 0) write(result);
    return static_cast<int>(ExitCode::done);
  });
}

}  // namespace plumbline
