// What the training step spends between operators.
#pragma once

#include "core/base/units.hpp"

namespace plumbline::calibration {

/// What it takes to take one tensor from the arena and give it back.
Seconds measure_allocation();

struct HostTime {
  Seconds call;    // from one operator to the next
  Seconds action;  // on top of that, per action
  Seconds step;    // on top of that, per step
};

/// Runs steps of the real training code on one rank, on models of hidden size 16, and takes away what passes inside
/// operators. Of the rest, what grows with the layers belongs to calls, what grows with the micro-batches beyond
/// that to actions, and what is left to the step. `allocation`: of one tensor, which is known.
HostTime measure_host_time(Seconds allocation);

}  // namespace plumbline::calibration
