#include "bench/cuda/reinforcement/nccl_pools.hpp"

#include "core/backends/nccl/channels.hpp"

namespace plumbline {
namespace {

using reinforcement::StepCommunicators;

/// A pool waits for the phases of the other one, however long; the runner's timeout covers that.
constexpr Seconds kBetweenPools{86400};

}  // namespace

NcclPools nccl_pools(const RunConfig& config, const Schedule& schedule, const StepCommunicators& control,
                     MPI_Comm pool, const NcclOptions& options) {
  NcclPools made;
  made.messages = reinforcement::step_communicators(
      config, [&](const Layout& layout, bool alone, reinforcement::StepCommunicator which) {
        const bool of_rollout = which == &StepCommunicators::rollout;
        const bool of_both = which == &StepCommunicators::both_pools;
        NcclOptions own = options;
        if (alone) own.world = pool;
        own.direct_messages = !alone && !of_rollout;
        if (of_both) own.watchdog.timeout = kBetweenPools;
        if (!of_both) own.channels = of_rollout ? forward_channels(layout.pipeline) : channels_of(schedule);
        auto communicator = std::make_unique<NcclCommunicator>(
            layout, dynamic_cast<MpiCommunicator&>(*(control.*which)), own);
        communicator->count_tensor_time(false);  // nobody asks for it
        if (of_rollout) made.rollout = communicator.get();
        if (!of_rollout && !of_both) made.training = communicator.get();
        return communicator;
      });
  return made;
}

}  // namespace plumbline
