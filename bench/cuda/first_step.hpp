// Notes after the first step; the state of the GPU in timed ones.
#pragma once

#include "bench/measure/machine/gpu_sampler.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/run/step_observer.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// After the first step reports, once per rank with tensor and data coordinate 0, the calls that the wanted
/// library did not compute. From the first timed step on the GPU's state is sampled while steps run.
class FirstStep final : public StepObserver {
 public:
  /// All must outlive it.
  FirstStep(NcclCommunicator& communicator, Operators& operators, GpuSampler& sampler, int warmup_steps)
      : communicator_(communicator), operators_(operators), sampler_(sampler), warmup_steps_(warmup_steps) {}

  void step_begins(int index) override;
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override;

 private:
  void say_fallbacks() const;

  NcclCommunicator& communicator_;
  Operators& operators_;
  GpuSampler& sampler_;
  int warmup_steps_;
  int index_ = 0;
};

}  // namespace plumbline
