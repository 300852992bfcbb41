// A step whose results are thrown away, before those that count.
#pragma once

#include <memory>

#include "bench/training/stage/rank_stages.hpp"
#include "core/config/run_config.hpp"
#include "core/run/communicator.hpp"
#include "core/run/host_lane.hpp"
#include "core/run/step_observer.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline::training {

/// Runs the first step on stages of its own, with weights of the configuration, so that the operators have
/// seen every shape: kernels are loaded and algorithms chosen. `communicator` may give stand-ins for other
/// ranks' results. Arguments and errors as train()'s. Collective over the world.
void rehearse(const RunConfig& config, const Schedule& schedule, Operators& operators,
              Communicator& communicator, Communicator& control, std::unique_ptr<MemorySource> memory,
              StepObserver* observer, HostLane* host);

}  // namespace plumbline::training
