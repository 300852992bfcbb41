// NCCL communicators of a step of reinforcement learning.
#pragma once

#include "bench/training/reinforcement/step_communicators.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct NcclPools {
  reinforcement::StepCommunicators messages;
  NcclCommunicator* training = nullptr;  // null on a rank that does not train
  NcclCommunicator* rollout = nullptr;   // likewise

  /// This rank's pool.
  NcclCommunicator& own() const { return training != nullptr ? *training : *rollout; }
};

/// Counterparts of `control`, whose communicators are MpiCommunicators; `pool`: this rank's. Those of all
/// ranks have direct messages, for the refit. `options`: without channels. Collective over all ranks; errors
/// as NcclCommunicator's.
NcclPools nccl_pools(const RunConfig& config, const Schedule& schedule,
                     const reinforcement::StepCommunicators& control, MPI_Comm pool,
                     const NcclOptions& options);

}  // namespace plumbline
