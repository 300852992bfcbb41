#include "analysis/time/processor_contention.hpp"

#include <algorithm>

#include "analysis/simulate/simulator.hpp"
#include "analysis/simulate/step_simulation.hpp"
#include "analysis/stragglers/slowest_gpu.hpp"

namespace plumbline {

double collective_contention(const RunConfig& config, const HardwareProfile& hardware,
                             const Software& software) {
  if (hardware.accelerator() == nullptr || !config.parallel.splits_vocabulary()) return 1;
  return config.parallel.pp.vocab_parallel == VocabPasses::interlaced
             ? software.communication.interlaced_slowdown
             : software.communication.collective_slowdown;
}

Load least_load(const RunConfig& config, const HardwareProfile& hardware, const Software& software) {
  Load load;
  load.layout = config.layout();
  load.collective_contention = collective_contention(config, hardware, software);
  if (hardware.accelerator() != nullptr) load.slowest = slowest_gpu(load.layout.world());
  return load;
}

Load load_of(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
             const Software& software) {
  Load load = least_load(config, hardware, software);
  const Layout& layout = load.layout;
  const int processors = hardware.processors();
  if (processors == 0) return load;
  const int peers = layout.tensor * layout.data;  // ranks of one pipeline coordinate
  StageCosts equal;
  equal.forward = equal.backward_input = equal.backward_weight = {1};
  equal.backward = {2};
  equal.teacher_forward = {1};
  const Bubble bubble = bubble_of(StepSimulation(step).run(uniform_costs(step.once.stages, equal)));
  const double together = std::max(0.0, 1 - bubble.ratio);
  const double others = peers - 1 + together * peers * (layout.pipeline - 1);
  load.busy = processors > 1 ? std::min(1.0, others / (processors - 1)) : 0;
  load.sharing = std::max(1.0, (others + 1) / processors);
  return load;
}

}  // namespace plumbline
