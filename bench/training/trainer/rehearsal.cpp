#include "bench/training/trainer/rehearsal.hpp"

#include <utility>

#include "bench/training/trainer/measured_run.hpp"

namespace plumbline::training {

void rehearse(const RunConfig& config, const Schedule& schedule, Operators& operators,
              Communicator& communicator, Communicator& control, std::unique_ptr<MemorySource> memory,
              StepObserver* observer, HostLane* host) {
  Arena arena(config.machine.memory_budget, std::move(memory));
  MeasuredRun run(config, schedule, operators, communicator, control, arena, observer, {}, {}, host);
  run.step(0);
}

}  // namespace plumbline::training
