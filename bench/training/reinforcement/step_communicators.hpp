// Messages of a rank within a step: among those that train, those that generate, and all.
#pragma once

#include <memory>

#include "core/reinforcement/phases.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::reinforcement {

/// The ranks that train come first. Those of the rollout are the same ones or, with rollout_world_size, the
/// others.
struct StepCommunicators {
  std::unique_ptr<Communicator> both_pools;  // null if all ranks train
  std::unique_ptr<Communicator> training;    // null on a rank that does not
  std::unique_ptr<Communicator> rollout;     // likewise

  Communicator& all() const { return both_pools ? *both_pools : *training; }
  /// This rank's pool.
  Communicator& pool() const { return training ? *training : *rollout; }
};

using StepCommunicator = std::unique_ptr<Communicator> StepCommunicators::*;

/// `make(layout, alone, which)`: a communicator of that layout over all ranks or, with `alone`, over this
/// rank's pool. `which` becomes it.
template <class Make>
StepCommunicators step_communicators(const RunConfig& config, const Make& make) {
  const Layout training = config.layout();
  const Layout rollout = rollout_config(config).layout();
  StepCommunicators made;
  if (!config.reinforcement.rollout.own_ranks()) {
    made.training = make(training, false, &StepCommunicators::training);
    made.rollout = make(rollout, false, &StepCommunicators::rollout);
    return made;
  }
  made.both_pools =
      make(Layout{.data = training.world() + rollout.world()}, false, &StepCommunicators::both_pools);
  const bool trains = made.both_pools->rank() < training.world();
  const StepCommunicator own = trains ? &StepCommunicators::training : &StepCommunicators::rollout;
  made.*own = make(trains ? training : rollout, true, own);
  return made;
}

}  // namespace plumbline::reinforcement
