#include "bench/run/generating_rank.hpp"

#include <fmt/format.h>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/backends/mpi/agreement.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config_text/config_listing.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {
namespace {

using generation::GenerationRequest;
using generation::GenerationResult;

GenerationResult generate_emulated(const RunConfig& config, const GenerationRequest& request,
                                   MpiCommunicator& control, const generation::GenerationProgress& progress) {
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  const MachineConfig& machine = config.machine;
  EmulatedClock clock = machine.emulated_clock == EmulatedTime::virtual_time
                            ? EmulatedClock::of_virtual_time()
                            : EmulatedClock(machine.emulated_time_factor, control.clock_offset());
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()),
                                    nullptr);
  const auto operators = make_emulated_operators(
      clock, emulated_call_time(config, hardware, config.measure.slowdown_of(control.rank())));
  return generate(config, request, *operators, communicator, control, untouched_memory(), progress);
}

GenerationResult generate_on_backend(const RunConfig& config, const GenerationRequest& request,
                                     MpiCommunicator& communicator,
                                     const generation::GenerationProgress& progress) {
  switch (config.machine.backend) {
    case Backend::emulated:
      return generate_emulated(config, request, communicator, progress);
    case Backend::cuda:
      return generate_on_cuda(config, request, communicator, progress);
    case Backend::cpu:
      break;
  }
  const auto operators = make_cpu_operators();
  return generate(config, request, *operators, communicator, communicator, host_memory(), progress);
}

}  // namespace

int run_as_generating_rank(const RunConfig& config, const GenerationRequest& request,
                           const std::function<void(const GenerationResult&)>& write) {
  if (config.machine.backend == Backend::cuda) become_cuda_program();
  bind_this_rank();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    require_same_on_all_ranks(describe(config));
    MpiCommunicator communicator(config.layout());
    const auto progress = [](std::int64_t done, std::int64_t all) {
      say(fmt::format("step {} of {}\n", done, all));
    };
    const GenerationResult result = generate_on_backend(config, request, communicator, progress);
    if (communicator.rank() == 0) write(result);
    return static_cast<int>(ExitCode::done);
  });
}

}  // namespace plumbline
